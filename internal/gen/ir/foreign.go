package ir

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// foreignVariants reports unions in this package with a variant declared in another package. Such a variant cannot have
// the union's marker method, because methods must be in the package of their type.
func (b *builder) foreignVariants(p *Package) {
	imported := map[*Decl]string{}
	for _, f := range p.Files {
		if f.Import == "" {
			continue
		}
		for _, d := range f.Decls {
			imported[d] = f.Import
		}
	}
	if len(imported) == 0 {
		return
	}
	for _, d := range b.all {
		if d.Form != Union || imported[d] != "" {
			continue
		}
		for _, v := range d.Variants {
			if from := imported[v.Decl]; from != "" {
				b.report(source.New("MCPE219", d.At, "the variant %s of the union %s is a type of the package %s, to which this one cannot add a method", v.Decl.Name, d.Name, from).
					WithRelated(v.Decl.At, "the schema of the variant is here").WithHint("move the union to the file of its variants, or describe the variant here"))
				break
			}
		}
	}
}
