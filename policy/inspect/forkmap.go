package inspect

// forkMap is a map that forks in constant time: a shell's state is copied at
// every pipe, substitution and branch, and rarely changed there.
type forkMap[V any] struct {
	layer *layer[V]
}

type layer[V any] struct {
	m    map[string]entry[V]
	up   *layer[V] // never changed once it is below another layer
	deep int
}

type entry[V any] struct {
	v    V
	gone bool
}

// flattenAt is how many layers a lookup walks at most.
const flattenAt = 12

func (t *forkMap[V]) get(name string) (v V, ok bool) {
	for l := t.layer; l != nil; l = l.up {
		if e, ok := l.m[name]; ok {
			return e.v, !e.gone
		}
	}
	return v, false
}

func (t *forkMap[V]) put(name string, e entry[V]) {
	if t.layer == nil {
		t.layer = &layer[V]{}
	}
	if t.layer.m == nil {
		t.layer.m = map[string]entry[V]{}
	}
	t.layer.m[name] = e
}

func (t *forkMap[V]) set(name string, v V) { t.put(name, entry[V]{v: v}) }

func (t *forkMap[V]) del(name string) { t.put(name, entry[V]{gone: true}) }

// fork returns an independent copy.
func (t *forkMap[V]) fork() forkMap[V] {
	base := t.layer
	if base == nil {
		return forkMap[V]{}
	}
	if base.m == nil {
		base = base.up
	}
	if base == nil {
		return forkMap[V]{}
	}
	if base.deep > flattenAt {
		base = &layer[V]{m: t.all()}
	}
	t.layer = &layer[V]{up: base, deep: base.deep + 1}
	return forkMap[V]{layer: &layer[V]{up: base, deep: base.deep + 1}}
}

// all is the whole content, deletions included.
func (t *forkMap[V]) all() map[string]entry[V] {
	out := map[string]entry[V]{}
	for l := t.layer; l != nil; l = l.up {
		for n, e := range l.m {
			if _, ok := out[n]; !ok {
				out[n] = e
			}
		}
	}
	return out
}

// changed are the names that may differ between two tables of one origin.
func (t *forkMap[V]) changed(o *forkMap[V]) map[string]bool {
	var names map[string]bool
	below := map[*layer[V]]bool{}
	for l := o.layer; l != nil; l = l.up {
		below[l] = true
	}
	var common *layer[V]
	for l := t.layer; l != nil && common == nil; l = l.up {
		if below[l] {
			common = l
		}
	}
	for _, from := range []*layer[V]{t.layer, o.layer} {
		for l := from; l != nil && l != common; l = l.up {
			for n := range l.m {
				if names == nil {
					names = map[string]bool{}
				}
				names[n] = true
			}
		}
	}
	return names
}

// adopt takes over what another table has set since their common origin.
func (t *forkMap[V]) adopt(o *forkMap[V]) {
	for n := range t.changed(o) {
		if v, ok := o.get(n); ok {
			t.set(n, v)
		}
	}
}

// clone is the present content as a plain map.
func (t *forkMap[V]) clone() map[string]V {
	out := map[string]V{}
	for n, e := range t.all() {
		if !e.gone {
			out[n] = e.v
		}
	}
	return out
}
