module audit-verify

go 1.26
