# Databases, containers, clouds and the system.
package sallyport.rules_test

outside_cases := {
	"psql": {"unit": cmd(["psql", "-c", "select 1"], {}), "fires": {"database.client"}},
	"psql --version": {"unit": cmd(["psql", "--version"], {}), "fires": set()},
	"sqlite3": {"unit": cmd(["sqlite3", "x.db"], {}), "fires": {"database.file"}},
	"rails db:migrate": {"unit": cmd(["rake", "db:migrate"], {}), "fires": {"database.migrate"}},
	"alembic upgrade": {"unit": cmd(["alembic", "upgrade", "head"], {}), "fires": {"database.migrate-tool"}},
	"manage.py migrate": {"unit": cmd(["python3", "manage.py", "migrate"], {}), "fires": {"database.migrate-tool"}},
	"manage.py test": {"unit": cmd(["python3", "manage.py", "test"], {}), "fires": set()},
	"docker ps": {"unit": cmd(["docker", "ps"], {}), "fires": {"containers.read"}},
	"docker build": {"unit": cmd(["docker", "build", "."], {}), "fires": {"containers.run"}},
	"docker push": {"unit": cmd(["docker", "push", "x"], {}), "fires": {"containers.publish"}},
	"docker run --privileged": {"unit": cmd(["docker", "run", "--privileged", "x"], {}), "fires": {"containers.run", "containers.privileged"}},
	"docker run with the host's pids": {"unit": cmd(["docker", "run", "--pid", "host", "x"], {}), "fires": {"containers.run", "containers.privileged"}},
	"docker run with the root of the host": {"unit": cmd(["docker", "run", "-v", "/:/host", "x"], {}), "fires": {"containers.run", "containers.privileged"}},
	"inside docker": {"unit": cmd(["frobnicate"], {"via": ["docker"], "has": has("via")}), "fires": {"containers.inside"}},
	"docker system prune -a": {"unit": cmd(["docker", "system", "prune", "-a"], {}), "fires": {"containers.run", "containers.prune"}},
	"kubectl get": {"unit": cmd(["kubectl", "get", "pods"], {}), "fires": {"cloud.read"}},
	"kubectl apply": {"unit": cmd(["kubectl", "apply", "-f", "x"], {}), "fires": {"cloud.change"}},
	"aws s3 rm": {"unit": cmd(["aws", "s3", "rm", "s3://x"], {}), "fires": {"cloud.change"}},
	"a verb nobody knows": {"unit": cmd(["aws", "quux"], {}), "fires": {"cloud.change"}},
	"terraform plan": {"unit": cmd(["terraform", "plan"], {}), "fires": {"cloud.read"}},
	"systemctl restart": {"unit": cmd(["systemctl", "restart", "x"], {}), "fires": {"system.configure"}},
	"systemctl status": {"unit": cmd(["systemctl", "status", "x"], {}), "fires": set()},
	"journalctl": {"unit": cmd(["journalctl", "-u"], {}), "fires": set()},
	"journal cleared": {"unit": cmd(["journalctl", "--vacuum-time=1s"], {}), "fires": {"system.configure"}},
	"ip addr": {"unit": cmd(["ip", "addr"], {}), "fires": set()},
	"ip link set": {"unit": cmd(["ip", "link", "set", "x", "down"], {}), "fires": {"system.configure"}},
	"crontab -l": {"unit": cmd(["crontab", "-l"], {}), "fires": set()},
	"crontab from a file": {"unit": cmd(["crontab", "x", "y"], {}), "fires": {"system.configure"}},
	"crontab from a pipe": {"unit": cmd(["crontab", "-"], {"fed_by": "echo"}), "fires": {"system.configure"}},
	"sudo": {"unit": cmd(["ls"], {"via": ["sudo"], "has": has("via")}), "fires": {"system.become"}},
	"sudo apt-get install": {"unit": cmd(["apt-get", "install", "x"], {"via": ["sudo"], "has": has("via")}), "fires": {"packages.install"}},
	"mkfs.ext4": {"unit": cmd(["mkfs.ext4", "/dev/sda1"], {}), "fires": {"system.disk"}},
	"mkfs of a kind nobody listed": {"unit": cmd(["mkfs.zonefs", "/dev/sda1"], {}), "fires": {"system.disk"}},
	"chown": {"unit": cmd(["chown", "ann", "x"], {}), "fires": {"system.chown"}},
	"chown to root": {"unit": touching(["chown", "root", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write", "system.chown"}},
	"chown in the workspace": {"unit": touching(["chown", "-R", "ann", "main.go"], [w_main], [], {}), "fires": {"filesystem.command-write", "system.chown-workspace"}},
	"history -c": {"unit": cmd(["history", "-c"], {}), "fires": {"system.traces"}},
	"history": {"unit": cmd(["history"], {}), "fires": set()},
	"unset HISTFILE": {"unit": cmd(["unset", "HISTFILE"], {}), "fires": {"system.traces"}},
	"pkill": {"unit": cmd(["pkill", "x"], {}), "fires": {"system.kill"}},
	"kill -9 -1": {"unit": cmd(["kill", "-9", "1"], {}), "fires": {"system.kill"}},
	"kill one": {"unit": cmd(["kill", "4711"], {}), "fires": set()},
}

test_outside[name] if {
	some name, c in outside_cases
	ids(c.unit) == c.fires
}
