package settings

import (
	"fmt"
	"slices"
	"strings"
)

// Suggest returns "; did you mean ...?" for an unknown key of a section, for a key
// of an unknown section, or for a key that exists in another section; "" if nothing
// is near. A section that does not exist may be a key that lost its section. A key is
// named whole, and where several sections have one of its name, all of them are.
func Suggest(section, name string) string {
	var names, all, sections []string
	keys := map[string][]string{} // by the name of a field
	for _, f := range Fields() {
		if f.Section == section {
			names = append(names, f.Name)
		}
		if !slices.Contains(sections, f.Section) {
			sections = append(sections, f.Section)
		}
		all = append(all, f.Name)
		keys[f.Name] = append(keys[f.Name], f.Key())
	}
	if !slices.Contains(sections, section) {
		word := nearest(section, append(sections, all...))
		if slices.Contains(sections, word) {
			return meant(word)
		}
		return meant(keys[word]...)
	}
	if word := nearest(name, names); word != "" {
		return meant(section + "." + word)
	}
	return meant(keys[name]...)
}

// meant asks whether one of some words was meant; "" without any.
func meant(words ...string) string {
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", strings.Join(words, " or "))
}

// nearest returns the word that is fewest edits away from text, if that is at most
// one more than a third of its length and leaves two of its letters; "" if none is.
func nearest(text string, words []string) string {
	best, fewest := "", min(len(text)/3+1, len(text)-2)+1
	for _, w := range words {
		if d := distance(text, w); d < fewest {
			best, fewest = w, d
		}
	}
	return best
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
