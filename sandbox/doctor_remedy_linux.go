package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// sysctls that keep ordinary users from namespaces, with the value that does.
var sysctls = []struct{ path, blocks, remedy string }{
	{"/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"},
	{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
	{"/proc/sys/user/max_net_namespaces", "0", "sysctl -w user.max_net_namespaces=15000"},
	{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", appArmorRemedy},
}

// appArmorRemedy gives the one program that needs user namespaces the right to
// them (Ubuntu 23.10 and later restrict them by AppArmor).
const appArmorRemedy = `as root: printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile sallyport-cell /**/sallyport-cell flags=(unconfined) {\n  userns,\n}\n' > /etc/apparmor.d/sallyport-cell && apparmor_parser -r /etc/apparmor.d/sallyport-cell`

// machineRemedy looks for what keeps this machine from giving namespaces and
// says how to change it.
func machineRemedy() string {
	var remedies []string
	for _, s := range sysctls {
		v, err := os.ReadFile(s.path)
		if err == nil && strings.TrimSpace(string(v)) == s.blocks {
			remedies = append(remedies, s.remedy)
		}
	}
	if len(remedies) > 0 {
		return strings.Join(remedies, "; ")
	}
	if inContainer() {
		return "this is a container whose own seccomp or AppArmor profile refuses namespaces: start it with " +
			"--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
	}
	return "run `sallyport doctor`: it names the wall that is missing; user namespaces need CONFIG_USER_NS"
}

func inContainer() bool {
	for _, p := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// remedyForWall says how to get a wall that is missing.
func (r *Runner) remedyForWall(w Wall) string {
	switch w.Name {
	case "cgroup":
		if _, err := os.Stat(cgroupMount + "/cgroup.controllers"); err == nil {
			return "start the daemon in a delegated group: systemd-run --user --scope -p Delegate=yes sallyport serve"
		}
		return fmt.Sprintf("cgroup v1 gives groups to root only: start the daemon as root, or boot with systemd.unified_cgroup_hierarchy=1 (user %d)", os.Geteuid())
	case "landlock":
		return "use Linux 5.13 or newer with lsm=landlock,… on the kernel command line"
	case "fresh proc":
		return "start the container with --security-opt systempaths=unconfined, so that its /proc has no masked parts"
	}
	return machineRemedy()
}
