package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"path"
)

//go:embed assets
var assets embed.FS

// Policy is the content security policy of the page: only what this server sends, and
// nothing inline.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"bytes": size, "count": thousands, "span": span, "ago": ago, "clock": clock,
}).ParseFS(assets, "assets/*.html"))

var types = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".html": "text/html; charset=utf-8",
}

// Page serves the empty page.
func Page(w http.ResponseWriter, _ *http.Request) { Asset(w, "page.html") }

// Asset serves one of the page's files; false, and nothing, if there is none of that name.
func Asset(w http.ResponseWriter, name string) bool {
	text, err := assets.ReadFile(path.Join("assets", path.Base(name)))
	kind, known := types[path.Ext(name)]
	if err != nil || !known || path.Ext(name) == ".html" && name != "page.html" {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", Policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if _, err := w.Write(text); err != nil {
		panic(http.ErrAbortHandler)
	}
	return true
}

// Render writes the view as HTML.
func Render(w io.Writer, v View) error {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "view.html", v); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	_, err := b.WriteTo(w)
	return err
}
