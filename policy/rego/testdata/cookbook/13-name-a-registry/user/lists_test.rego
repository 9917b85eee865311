package sallyport.user_test

granted contains e if {
	some h in data.sallyport.rules.hit with input as {
		"unit": "cmd",
		"cmd": {"program": "npm", "class": "builder", "sub": "ci", "argv": ["npm", "ci"], "args": [], "flags": [], "via": [], "has": {}},
		"has": {},
	}
	some e in h.obligations.net
}

test_the_registry_is_opened if granted == {{"host": "npm.corp.example", "port": 443}}
