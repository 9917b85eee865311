package rego

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"sallyport/policies"
	"sallyport/policy"
)

// generation is one compiled policy. It never changes; a reload makes another.
type generation struct {
	sources  []source
	data     *policy.Data
	rules    []RuleInfo
	byID     map[string]RuleInfo
	store    storage.Store
	txn      storage.Transaction                  // one read for all evaluations: the store is never written
	queries  map[string]oparego.PreparedEvalQuery // by unit, and unit + having
	bindings []binding
	revision string
}

// binding is one hit set of one package, as a variable of the queries.
type binding struct {
	variable, pkg, set string
	trusted            bool // its rules may grant, not only take
}

// capabilities are those of this evaluator without what would make a decision
// depend on anything but its input: no clock, no randomness, no network, no
// environment. A rule that uses one does not compile, not even through `with`.
func capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	kept := c.Builtins[:0:0]
	for _, b := range c.Builtins {
		if b.IsNondeterministic() || strings.HasPrefix(b.Name, "io.jwt.") || b.Name == "rego.parse_module" {
			continue
		}
		kept = append(kept, b)
	}
	c.Builtins = kept
	c.AllowNet = []string{}
	return c
}

// newCompiler checks types against the input schema and is strict.
func newCompiler() (*ast.Compiler, error) {
	text, err := fs.ReadFile(policies.FS, "schema/input.json")
	if err != nil {
		return nil, err
	}
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, fmt.Errorf("read the schema of the policy input: %w", err)
	}
	set := ast.NewSchemaSet()
	set.Put(ast.SchemaRootRef, schema)
	return ast.NewCompiler().
		WithCapabilities(capabilities()).
		WithSchemas(set).
		WithStrict(true).
		WithUseTypeCheckAnnotations(true), nil
}

// compile checks the sources as a whole and prepares them for evaluation.
func compile(ctx context.Context, sources []source) (*generation, error) {
	for i := range sources {
		if err := sources[i].checkPlace(); err != nil {
			return nil, err
		}
	}
	g := &generation{sources: sources, revision: digest(sources)}
	var err error
	if g.data, err = merge(sources); err != nil {
		return nil, err
	}
	if g.rules, err = ruleInfos(sources); err != nil {
		return nil, err
	}
	g.byID = make(map[string]RuleInfo, len(g.rules))
	for _, r := range g.rules {
		g.byID[r.ID] = r
	}
	if err := g.checkNames(); err != nil {
		return nil, err
	}
	return g, g.prepare(ctx)
}

// checkNames holds the lists that name rules to rules that exist.
func (g *generation) checkNames() error {
	for _, r := range g.data.Relax {
		if _, ok := g.byID[r.Rule]; !ok {
			return fmt.Errorf("relax names the rule %q, which does not exist; `sallyport policy rules` lists them", r.Rule)
		}
	}
	for _, id := range g.data.Shadow {
		if _, ok := g.byID[id]; !ok {
			return fmt.Errorf("shadow names the rule %q, which does not exist; `sallyport policy rules` lists them", id)
		}
	}
	return nil
}

func (g *generation) prepare(ctx context.Context) error {
	compiler, err := newCompiler()
	if err != nil {
		return err
	}
	modules, whole := g.modules()
	if compiler.Compile(modules); compiler.Failed() {
		return fmt.Errorf("compile the policy:\n%w", compiler.Errors)
	}
	doc, err := g.document()
	if err != nil {
		return err
	}
	if err := checkData(compiler, doc); err != nil {
		return err
	}
	learnReads(g.rules, compiler)
	for _, r := range g.rules {
		g.byID[r.ID] = r
	}
	g.store = inmem.NewFromObjectWithOpts(doc, inmem.OptReturnASTValuesOnRead(true), inmem.OptRoundTripOnWrite(false))
	if g.txn, err = g.store.NewTransaction(ctx); err != nil {
		return fmt.Errorf("prepare the policy: %w", err)
	}
	g.queries = map[string]oparego.PreparedEvalQuery{}
	g.bindings = g.bind(compiler)
	for unit, sets := range map[string][]string{
		unitCall: {callHit}, unitCall + having: {callHit, callHit + having}, unitCmd: {cmdHit}, unitCmd + having: {cmdHit, cmdHit + having},
	} {
		if whole {
			sets = []string{cmdHit}
		}
		query, err := oparego.New(
			oparego.Query(g.entry(sets)),
			oparego.Compiler(compiler),
			oparego.Store(g.store),
			oparego.StrictBuiltinErrors(true),
		).PrepareForEval(ctx)
		if err != nil {
			return fmt.Errorf("prepare the policy: %w", err)
		}
		g.queries[unit] = query
	}
	return nil
}

// modules are those of the rules, split, or whole where a rule reads what others
// found.
func (g *generation) modules() (modules map[string]*ast.Module, whole bool) {
	modules = map[string]*ast.Module{}
	for _, s := range g.sources {
		for _, m := range s.modules {
			if !m.test {
				modules[m.file] = m.ast
				whole = whole || readsHits(m.ast)
			}
		}
	}
	for file, m := range modules {
		if whole {
			modules[file] = m.Copy()
		} else {
			modules[file] = split(m)
		}
	}
	return modules, whole
}

// bind numbers the packages that have hit sets.
func (g *generation) bind(c *ast.Compiler) []binding {
	owner := ownerOf(g.sources)
	trust := map[string]bool{}
	for _, s := range g.sources {
		for _, m := range s.modules {
			if !m.test {
				trust[m.ast.Package.Path.String()] = s.layer == builtin || s.layer == owner
			}
		}
	}
	var out []binding
	for i, p := range slices.Sorted(maps.Keys(trust)) {
		for _, set := range hitSets {
			if ref, err := ast.ParseRef(p + "." + set); err == nil && len(c.GetRulesExact(ref)) > 0 {
				out = append(out, binding{fmt.Sprintf("%s%d", set, i), p, set, trust[p]})
			}
		}
	}
	return out
}

// entry is a query for the sets of every package that has them. A partial set
// is always defined, so the conjunction is too.
func (g *generation) entry(sets []string) string {
	var terms []string
	for _, b := range g.bindings {
		if slices.Contains(sets, b.set) {
			terms = append(terms, b.variable+" = "+b.pkg+"."+b.set)
		}
	}
	if len(terms) == 0 {
		return "true"
	}
	return strings.Join(terms, "; ")
}

// document is the data as rules see it.
func (g *generation) document() (map[string]any, error) {
	text, err := json.Marshal(g.data)
	if err != nil {
		return nil, fmt.Errorf("write the policy data: %w", err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	return map[string]any{"sallyport": doc}, nil
}

// checkData refuses a rule that reads a list or package that does not exist: a
// typing error there would make the rule silently never fire.
func checkData(c *ast.Compiler, doc map[string]any) error {
	lists := doc["sallyport"].(map[string]any)
	packages := map[string]bool{}
	for _, m := range c.Modules {
		if p := packagePath(m); len(p) > 1 {
			packages[p[1]] = true
		}
	}
	var problems []string
	for _, m := range c.Modules {
		ast.WalkRefs(m, func(ref ast.Ref) bool {
			if len(ref) < 3 || !ref.HasPrefix(ast.DefaultRootRef) || ref[0].Location == nil {
				return false
			}
			top, ok1 := ref[1].Value.(ast.String)
			name, ok2 := ref[2].Value.(ast.String)
			if !ok1 || !ok2 || top != "sallyport" {
				return false
			}
			if _, ok := lists[string(name)]; !ok && !packages[string(name)] {
				problems = append(problems, fmt.Sprintf("%s: there is no data.sallyport.%s", ref[0].Location, string(name)))
			}
			return false
		})
	}
	if len(problems) > 0 {
		sort.Strings(problems)
		return fmt.Errorf("check the policy:\n%s", strings.Join(problems, "\n"))
	}
	return nil
}

func digest(sources []source) string {
	sum := sha256.New()
	for _, s := range sources {
		fmt.Fprintf(sum, "%s %s\n", s.layer, s.digest)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
