package sallyport.administrator_test

cmd(argv) := {"cmd": {"program": "kubectl", "class": "cloud", "argv": argv}}

test_production if {
	some h in data.sallyport.administrator.hit with input as cmd(["kubectl", "--context", "prod-eu", "get", "pods"])
	h.obligations.approvers == 2
}

test_staging if count(data.sallyport.administrator.hit) == 0 with input as cmd(["kubectl", "--context", "staging", "get", "pods"])
