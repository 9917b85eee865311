package rego

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
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
	queries  map[string]oparego.PreparedEvalQuery // by unit
	trusted  []bool                               // by query variable: the rule set may grant, not only take
	revision string
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
	modules := map[string]*ast.Module{}
	for _, s := range g.sources {
		for _, m := range s.modules {
			if !m.test {
				modules[m.file] = split(m.ast)
			}
		}
	}
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
	packages := g.packages()
	for unit, set := range map[string]string{unitCall: callHit, unitCmd: cmdHit} {
		query, err := oparego.New(
			oparego.Query(entry(compiler, packages, set)),
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

// packages lists the packages that have a hit set, and fills trusted.
func (g *generation) packages() []string {
	owner := ownerOf(g.sources)
	trust := map[string]bool{}
	for _, s := range g.sources {
		for _, m := range s.modules {
			if m.test {
				continue
			}
			for _, r := range m.ast.Rules {
				if r.Head.Name.String() == cmdHit {
					trust[m.ast.Package.Path.String()] = s.layer == builtin || s.layer == owner
				}
			}
		}
	}
	packages := make([]string, 0, len(trust))
	for p := range trust {
		packages = append(packages, p)
	}
	sort.Strings(packages)
	for _, p := range packages {
		g.trusted = append(g.trusted, trust[p])
	}
	return packages
}

// entry is the query of one unit: the sets of every package that has one. A
// partial set is always defined, so the conjunction is too.
func entry(c *ast.Compiler, packages []string, set string) string {
	var sets []string
	for i, p := range packages {
		if ref, err := ast.ParseRef(p + "." + set); err == nil && len(c.GetRulesExact(ref)) > 0 {
			sets = append(sets, fmt.Sprintf("h%d = %s", i, ref))
		}
	}
	if len(sets) == 0 {
		return "true"
	}
	return strings.Join(sets, "; ")
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
