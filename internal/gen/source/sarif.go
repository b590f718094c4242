package source

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
)

// The part of SARIF 2.1.0 that is used: a single run with results and rules.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		URI   string      `json:"informationUri"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string        `json:"id"`
		Short   sarifMessage  `json:"shortDescription"`
		Full    *sarifMessage `json:"fullDescription,omitempty"`
		Default sarifLevel    `json:"defaultConfiguration"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
		Related   []sarifLocation `json:"relatedLocations,omitempty"`
		// Suppressions holds the reasons to ignore a result.
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
	sarifLocation struct {
		ID       int           `json:"id,omitempty"`
		Physical sarifPhysical `json:"physicalLocation"`
		Message  *sarifMessage `json:"message,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
		EndLine     int `json:"endLine,omitempty"`
		EndColumn   int `json:"endColumn,omitempty"`
	}
)

// writeSARIF writes all diagnostics as one SARIF log.
func (p *printer) writeSARIF(ds []Diagnostic) error {
	describe := p.o.Describe
	if describe == nil {
		describe = Lookup
	}
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "mcpe-gen", URI: "https://github.com/mcpe-gen/mcpe-gen", Rules: []sarifRule{}}
	index := map[string]int{}
	for _, d := range ds {
		i, ok := index[d.Code]
		if !ok {
			i = len(index)
			index[d.Code] = i
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRuleOf(d, describe))
		}
		r := sarifResult{RuleID: d.Code, RuleIndex: i, Level: d.Severity.String(), Message: sarifMessage{d.Message}, Locations: []sarifLocation{sarifAt(d.Range)}}
		if d.Hint != "" {
			r.Message.Text += " (" + d.Hint + ")"
		}
		if d.Silenced != "" {
			r.Suppressions = []sarifSuppression{{Kind: "external", Justification: d.Silenced}}
		}
		for i, related := range d.Related {
			l := sarifAt(related.Range)
			l.ID, l.Message = i+1, &sarifMessage{related.Message}
			r.Related = append(r.Related, l)
		}
		run.Results = append(run.Results, r)
	}
	text, err := json.MarshalIndent(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing diagnostics as SARIF: %w", err)
	}
	p.Write(text)
	p.WriteByte('\n')
	return nil
}

func sarifRuleOf(d Diagnostic, describe func(string) (Code, bool)) sarifRule {
	r := sarifRule{ID: d.Code, Short: sarifMessage{d.Code}, Default: sarifLevel{d.Severity.String()}}
	if c, ok := describe(d.Code); ok {
		r.Short.Text, r.Default.Level = c.Title, c.Severity.String()
		r.Full = &sarifMessage{c.Explanation}
	}
	return r
}

func sarifAt(r Range) sarifLocation {
	u := url.URL{Path: filepath.ToSlash(r.Start.File)}
	if filepath.IsAbs(r.Start.File) {
		u.Scheme = "file"
	}
	l := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{u.String()}}}
	if r.Start.Line > 0 {
		l.Physical.Region = &sarifRegion{StartLine: r.Start.Line, StartColumn: r.Start.Column}
		if r.Start.Column > 0 && r.End.Column > 0 {
			l.Physical.Region.EndLine, l.Physical.Region.EndColumn = r.End.Line, r.End.Column
		}
	}
	return l
}
