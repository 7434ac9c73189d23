// Package httpadmin is the operator's HTTP surface: routes, tokens, limits and JSON in
// front of actors/admin.
//
//	GET  /livez /readyz /metrics        without a token
//	GET  / /console/{file}              without a token: the console's empty page; see package console
//	GET  /console/view                  its content
//	GET  /status /streams               JSON
//	GET  /tree?path=P&factory=P&offset=N&limit=N&search=TEXT
//	POST /tree/terminate /tree/restart  {"path":"node/tiering/governor"}
//	GET  /registry?kind=K&offset=N&limit=N, /registry/{stream}
//	GET  /events?since=SEQ&follow=1     with follow NDJSON, one event a line; {"missing":N} where N are forgotten
//	GET  /tiering, POST /tiering/enable /tiering/disable /tiering/claim
//	POST /streams                       {"name":"x","arguments":{"k":"v"}}
//	GET  /streams/{name}
//	POST /streams/{name}/cut
//	POST /streams/{name}/reset
//	GET  /streams/{name}/durable?offset=N&timeout=30s
//	GET, PUT /streams/{name}/retention  {"max_bytes":1073741824,"max_age":"7d","local_max_bytes":null}
//	GET  /streams/{name}/records?from=first|last|next|OFFSET|TIME&limit=N&follow=1
//
// A parameter or a body that a request does not take is refused, but of what is open to all.
// A refusal is {"error":"...","hint":"..."} with a fitting status. Records come as
// NDJSON, one line a record:
//
//	{"offset":7,"timestamp":"2026-03-01T12:00:00.000Z","epoch":1,"record":{...}}
//
// "record" is the data section of the AMQP message if that is JSON, "data" is it in
// base64 if not, and "message" is the whole body in base64 if it is not an AMQP message
// of one data section. A line {"moved":{"from":..,"to":..,"why":".."}} stands where
// records that were asked for are gone.
//
// The status of a reading is decided by its first records: one that cannot be answered is
// refused, unless it follows and has none for a moment.
//
// An answer that is whole ends with the HTTP trailer X-Millrace-Complete: true. One that
// broke off after its first byte ends with a line {"error":..,"hint":..,"next":OFFSET} and an aborted
// connection, so that no client can take it for whole.
package httpadmin
