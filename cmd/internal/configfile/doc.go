// Package configfile reads the one TOML file of a node into core/settings.
//
// It is strict: a key that does not exist is refused with its line and column and
// the nearest key that does, and every value that core/settings refuses is shown
// where it stands. Connection strings come from the files and environment
// variables that the configuration names.
package configfile
