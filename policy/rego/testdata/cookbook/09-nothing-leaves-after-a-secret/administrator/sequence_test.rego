package sallyport.administrator_test

unit(secret) := {"session": {"reads_secret": secret}, "cmd": {"program": "curl", "class": "dialler"}}

test_after_a_secret if count(data.sallyport.administrator.hit) == 1 with input as unit(true)

test_before if count(data.sallyport.administrator.hit) == 0 with input as unit(false)
