package sallyport.administrator_test

test_scan if count(data.sallyport.administrator.hit) == 1 with input as {"cmd": {"program": "nmap"}}

test_other if count(data.sallyport.administrator.hit) == 0 with input as {"cmd": {"program": "make"}}
