package inspect

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// runner is a program that runs what a file of the project says, without being
// told the file's name.
type runner struct {
	programs string // separated by spaces
	files    string // the first that exists is read, here or in a folder above
	flag     string // an option that names another file
	lang     language
}

var runners = []runner{
	{"just", "justfile Justfile .justfile", "--justfile", langJust},
	{"task go-task", "Taskfile.yml taskfile.yml Taskfile.yaml taskfile.yaml Taskfile.dist.yml Taskfile.dist.yaml", "--taskfile", langTask},
	{"ninja samu", "build.ninja", "-f", langNinja},
	{"tox", "tox.ini", "--conf", langTox},
	{"cmake", "CMakeLists.txt", "", langCMake},
	{"rake", "Rakefile rakefile Rakefile.rb rakefile.rb", "--rakefile", langRuby},
	{"invoke inv", "tasks.py", "", langPython},
	{"fab", "fabfile.py", "--fabfile", langPython},
	{"nox", "noxfile.py", "--noxfile", langPython},
	{"doit", "dodo.py", "--file", langPython},
	{"scons", "SConstruct Sconstruct sconstruct", "--file", langPython},
	{"pytest py.test", "conftest.py", "", langPython},
	{"cargo", "build.rs", "", langOther},
	{"mix", "mix.exs", "", langOther},
	{"gradle gradlew", "build.gradle build.gradle.kts", "--build-file", langOther},
	{"meson", "meson.build", "", langOther},
	{"grunt", "Gruntfile.js", "--gruntfile", langNode},
	{"gulp", "gulpfile.js gulpfile.mjs", "--gulpfile", langNode},
}

// runnerOf finds a runner by the program's name.
var runnerOf = sync.OnceValue(func() map[string]runner {
	all := map[string]runner{}
	for _, r := range runners {
		for _, name := range strings.Fields(r.programs) {
			all[name] = r
		}
	}
	return all
})

// taskfile reads the file a runner runs and walks what is asked of it.
func (c *call) taskfile() {
	r, ok := runnerOf()[c.name]
	if !ok || c.script != nil || c.flag("--list") || c.flag("--list-all") || c.flag("--tasks") {
		return
	}
	names := strings.Fields(r.files)
	if v, ok := c.value(r.flag); ok && r.flag != "" {
		names = []string{v.s}
	}
	for _, dir := range c.upwards() {
		for _, n := range names {
			if !path.IsAbs(n) {
				n = path.Join(dir, n)
			}
			rel, text, ok := c.document(n)
			if !ok {
				if c.opaque != "" {
					return
				}
				continue
			}
			if slices.Contains(c.w.via, "script:"+rel) {
				return
			}
			d := c.inner(c.name)
			d.via = append(d.via, "script:"+rel)
			c.script.Findings = append(c.script.Findings, d.code(c, text, rel, r.lang)...)
			return
		}
	}
}

// upwards are the command's folder and those above it, up to the workspace.
func (c *call) upwards() []string {
	dirs := []string{c.dir}
	for d := c.dir; d != "" && d != c.w.in.root && len(dirs) < maxDepth; {
		d = path.Dir(d)
		if _, inside := c.w.in.inside(d); !inside {
			break
		}
		dirs = append(dirs, d)
	}
	return dirs
}

// tasks walks the tasks that the operands name, or the first.
func (w *walker) tasks(c *call, read func(text string, vars map[string]string) (map[string]recipe, string), text string) {
	vars := map[string]string{}
	rules, first := read(text, vars)
	var goals []string
	for _, a := range c.args {
		if k, v, ok := strings.Cut(a.s, "="); ok {
			vars[k] = v
		} else if _, ok := rules[a.s]; ok {
			goals = append(goals, a.s)
		}
	}
	if len(goals) == 0 && first != "" {
		goals = []string{first}
	}
	w.walkRules(rules, goals, vars)
}

var (
	justHead   = regexp.MustCompile(`^@?([\w-]+)((?:\s+[+*$]*[\w-]+(?:\s*=\s*(?:'[^']*'|"[^"]*"|\S+))?)*)\s*:([^=].*)?$`)
	justAssign = regexp.MustCompile(`^(?:export\s+)?([\w-]+)\s*:=\s*(.*)$`)
	mustache   = regexp.MustCompile(`\{\{-?\s*\.?([\w-]+)\s*-?\}\}`)
	mustaches  = regexp.MustCompile(`\{\{.*?\}\}`)
)

// templated turns the {{name}} of task files into make's $(name), and what
// cannot be told into a variable nobody knows.
func templated(line string) string {
	line = strings.ReplaceAll(line, "$", "$$")
	line = mustache.ReplaceAllString(line, "$($1)")
	return mustaches.ReplaceAllString(line, "$$(expression)")
}

// justTasks reads a justfile.
func justTasks(text string, vars map[string]string) (map[string]recipe, string) {
	rules, first, name := map[string]recipe{}, "", ""
	add := func(line string) {
		r := rules[name]
		r.lines = append(r.lines, templated(line))
		rules[name] = r
	}
	for _, l := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		switch assign, head := justAssign.FindStringSubmatch(l), justHead.FindStringSubmatch(l); {
		case strings.HasPrefix(l, " ") || strings.HasPrefix(l, "\t"):
			add(strings.TrimSpace(l))
		case assign != nil:
			vars[assign[1]] = templated(strings.Trim(assign[2], `"'`))
			if command, ok := strings.CutPrefix(assign[2], "`"); ok {
				name = "`" // run when the file is read, whatever the goal
				add(strings.TrimSuffix(command, "`"))
			}
		case head != nil:
			name = head[1]
			if first == "" {
				first = name
			}
			needs := strings.Fields(strings.NewReplacer("(", " ", ")", " ", "&&", " ").Replace(head[3]))
			if _, ok := rules["`"]; ok {
				needs = append(needs, "`")
			}
			rules[name] = recipe{needs: needs}
		}
	}
	return rules, first
}

// yamlTasks reads a Taskfile.
func yamlTasks(text string, vars map[string]string) (map[string]recipe, string) {
	var file struct {
		Vars  map[string]yaml.Node `yaml:"vars"`
		Tasks map[string]yaml.Node `yaml:"tasks"`
	}
	if yaml.Unmarshal([]byte(text), &file) != nil {
		return nil, ""
	}
	rules := map[string]recipe{}
	for name, v := range file.Vars {
		if v.Kind == yaml.ScalarNode {
			vars[name] = templated(v.Value)
		}
	}
	for name, node := range file.Tasks {
		rules[name] = yamlTask(&node)
	}
	if _, ok := rules["default"]; ok {
		return rules, "default"
	}
	return rules, ""
}

// yamlTask reads what one task runs: its commands, those of its variables, its
// conditions, and the tasks it needs.
func yamlTask(n *yaml.Node) (r recipe) {
	switch n.Kind {
	case yaml.ScalarNode:
		r.lines = []string{templated(n.Value)}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			r.join(yamlTask(item))
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			switch key, value := n.Content[i].Value, n.Content[i+1]; key {
			case "cmds", "cmd", "sh", "defer", "status", "preconditions", "vars", "env", "for":
				if key == "vars" || key == "env" {
					value = dynamic(value)
				}
				r.join(yamlTask(value))
			case "task":
				r.needs = append(r.needs, value.Value)
			case "deps":
				for _, dep := range value.Content {
					if dep.Kind == yaml.ScalarNode {
						r.needs = append(r.needs, dep.Value)
					} else {
						r.join(yamlTask(dep))
					}
				}
			}
		}
	}
	return r
}

// dynamic keeps of a map of variables those that a command computes.
func dynamic(vars *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.SequenceNode}
	for _, v := range vars.Content {
		if v.Kind == yaml.MappingNode {
			out.Content = append(out.Content, v)
		}
	}
	return out
}

func (r *recipe) join(more recipe) {
	r.needs, r.lines = append(r.needs, more.needs...), append(r.lines, more.lines...)
}

var (
	ninjaCommand = regexp.MustCompile(`(?m)^\s+command\s*=\s*(.+)$`)
	toxCommand   = regexp.MustCompile(`(?m)^commands(?:_pre|_post)?\s*=\s*(.*(?:\n[ \t]+.*)*)`)
	cmakeCommand = regexp.MustCompile(`\bCOMMAND\s+((?:"[^"]*"|[^()"])*)`)
	cmakeKeyword = regexp.MustCompile(`\s(?:COMMAND|WORKING_DIRECTORY|(?:OUTPUT|ERROR|RESULT|RESULTS)_(?:VARIABLE|FILE|QUIET|STRIP\w*)|TIMEOUT|DEPENDS|COMMENT|VERBATIM|ARGS)\b`)
)

// ninja walks the commands of all rules: which of them a target needs is told
// only by its whole graph.
func (w *walker) ninja(text string) {
	text = strings.ReplaceAll(text, "$\n", " ")
	for _, m := range ninjaCommand.FindAllStringSubmatch(text, maxItems) {
		w.within("", true).recipeLine(makeVars(m[1], nil, "", 0))
	}
}

// tox walks the commands of all environments.
func (w *walker) tox(text string) {
	for _, m := range toxCommand.FindAllStringSubmatch(text, maxItems) {
		for _, l := range strings.Split(strings.ReplaceAll(m[1], "\\\n", " "), "\n") {
			w.within("", true).recipeLine(strings.TrimLeft(l, "- \t"))
		}
	}
}

// cmake walks what execute_process and the custom commands run.
func (w *walker) cmake(text string) {
	for _, m := range cmakeCommand.FindAllStringSubmatch(text, maxItems) {
		for _, command := range cmakeKeyword.Split(" "+m[1], 8) {
			w.within("", true).recipeLine(strings.Join(strings.Fields(command), " "))
		}
	}
}
