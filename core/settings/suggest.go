package settings

import (
	"fmt"
	"slices"
)

// Suggest returns "; did you mean ...?" for an unknown key of a section, for a key
// of an unknown section, or for a key that exists in another section; "" if nothing
// is near. A section that does not exist may be a key that lost its section.
func Suggest(section, name string) string {
	var names, all, sections, elsewhere []string
	whole := map[string]string{} // by the name of a field: one with its section
	for _, f := range Fields() {
		if _, known := whole[f.Name]; !known {
			whole[f.Name] = f.Key()
		}
		if f.Section == section {
			names = append(names, f.Name)
		}
		all = append(all, f.Name)
		if !slices.Contains(sections, f.Section) {
			sections = append(sections, f.Section)
		}
		if f.Name == name {
			elsewhere = append(elsewhere, f.Key())
		}
	}
	if !slices.Contains(sections, section) {
		return nearest(section, append(sections, all...), whole)
	}
	if hint := nearest(name, names, nil); hint != "" {
		return hint
	}
	if len(elsewhere) > 0 {
		return fmt.Sprintf("; did you mean %s?", elsewhere[0])
	}
	return ""
}

// nearest names the word that is fewest edits away from text, if that is at most
// one more than a third of its length and leaves two of its letters. A word that is in
// whole stands for what is there.
func nearest(text string, words []string, whole map[string]string) string {
	best, fewest := "", min(len(text)/3+1, len(text)-2)+1
	for _, w := range words {
		if d := distance(text, w); d < fewest {
			best, fewest = w, d
		}
	}
	if best == "" {
		return ""
	}
	if key, ok := whole[best]; ok {
		best = key
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance counts the single-byte insertions, deletions and replacements that turn
// a into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
