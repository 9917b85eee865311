package sallyport.user_test

push(now) := {"now": now, "cmd": {"program": "git", "sub": "push"}}

test_saturday if count(data.sallyport.user.hit) == 1 with input as push("2026-01-03T10:00:00Z")

test_monday if count(data.sallyport.user.hit) == 0 with input as push("2026-01-05T10:00:00Z")
