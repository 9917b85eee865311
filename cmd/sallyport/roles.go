package main

import (
	"os/user"
	"slices"
	"strings"

	"sallyport/policy/approval"
)

// approversRole begins the value of approvers that names a role.
const approversRole = "role:"

// decidingRole is the role that everybody who decides has to hold, "" for none.
func (c config) decidingRole() string {
	role, _ := strings.CutPrefix(c.Approvers, approversRole)
	if role == c.Approvers {
		return ""
	}
	return role
}

// rolesOf are the roles of a user, by name or by the system's groups.
func (c config) rolesOf(name string) []string {
	var out []string
	var groups []string // looked up when a role names one
	looked := false
	for _, role := range sortedKeys(c.Roles) {
		if slices.ContainsFunc(c.Roles[role], func(who string) bool {
			group, isGroup := strings.CutPrefix(who, "@")
			if !isGroup {
				return who == name
			}
			if !looked {
				groups, looked = groupsOf(name), true
			}
			return slices.Contains(groups, group)
		}) {
			out = append(out, role)
		}
	}
	return out
}

// groupsOf are the names of a user's groups; somebody the system does not know has
// none.
func groupsOf(name string) []string {
	u, err := user.Lookup(name)
	if err != nil {
		return nil
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil
	}
	var out []string
	for _, id := range ids {
		if g, err := user.LookupGroupId(id); err == nil {
			out = append(out, g.Name)
		}
	}
	return out
}

// holding is a person with the roles that the configuration gives to the name.
func (c config) holding(p approval.Person) approval.Person {
	p.Roles = c.rolesOf(p.Name)
	return p
}
