package sallyport.LAYER_test

test_release if {
	some h in data.sallyport.LAYER.hit with input as {"cmd": {"program": "release.sh"}}
	h.id == "LAYER.release-script"
}

test_nothing_else if count(data.sallyport.LAYER.hit) == 0 with input as {"cmd": {"program": "ls"}}
