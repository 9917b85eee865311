package sallyport.project_test

test_node if {
	some h in data.sallyport.project.hit with input as {"cmd": {"program": "node"}}
	h.obligations.limits.memory == 1073741824
}
