// Package declare reads the arguments that a stream is created with.
//
// They are RabbitMQ's, all text, so that its clients and its operators' habits work
// as they are; local-max-bytes and local-min-bytes are ours. Arguments that RabbitMQ knows and Millrace has no use for, and those
// neither knows, are kept and without effect, as there.
package declare
