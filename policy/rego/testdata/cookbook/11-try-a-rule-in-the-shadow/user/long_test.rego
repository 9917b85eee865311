package sallyport.user_test

test_long if count(data.sallyport.user.hit) == 1 with input as {"cmd": {"argv": numbers.range(1, 61)}}

test_short if count(data.sallyport.user.hit) == 0 with input as {"cmd": {"argv": ["ls"]}}
