package httpadmin

import (
	"context"
	"net/http"
	"time"

	"millrace/cmd/internal/console"
)

// viewPath is where the console's content comes from: among its files, which are open,
// the one that holds something of the node.
const viewPath = "/console/view"

// asset serves one of the page's files.
func (s *surface) asset(w http.ResponseWriter, r *http.Request) {
	if !console.Asset(w, r.PathValue("file")) {
		notFound(w)
	}
}

func (s *surface) console(w http.ResponseWriter, r *http.Request) {
	var q console.Query
	err := parameters(r.URL.RawQuery, map[string]func(string) error{
		"search": into(&q.Search), "troubled": flag(&q.Troubled), "problems": flag(&q.Problems),
		"offset": number(&q.Offset), "factory": into(&q.Factory), "page": number(&q.Page),
	})
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error(), "the console and the node are of two versions: load the page anew")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	view, err := console.Look(ctx, s.cfg.Node, q, time.Now())
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", console.Policy)
	if err := console.Render(w, view); err != nil {
		s.cfg.Log.Error().Err(err).Msg("admin: the console's view broke off")
		panic(http.ErrAbortHandler)
	}
}
