// Command demo runs Millrace's main job end to end on a PostgreSQL of its own, with crashes on the way, and proves that nothing was lost.
//
// It makes a throw-away PostgreSQL with a small shop, lets several writers loose on
// it, and runs the node as a child on a configuration that tiers and trims within
// seconds. It kills the node with SIGKILL during the first load and later, once
// while PostgreSQL is down too, and PostgreSQL with an immediate shutdown. At the
// end it reads the whole stream from its first offset through the node, folds it
// into tables, and compares them with PostgreSQL's, row by row.
//
// With -store s3 the store is an S3 server on loopback, behind a proxy that makes the
// network slow and then bad; the server is killed and stays down for a minute.
//
// Any difference ends it with exit code 1 and names the first event that differs.
// Otherwise it leaves everything up until it is interrupted, unless DEMO_EXIT=1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	binary := flag.String("millrace", "bin/millrace", "the program to run")
	store := flag.String("store", "directory", "where objects go: directory or s3")
	flag.Parse()
	if *store != "directory" && *store != "s3" {
		fmt.Fprintf(os.Stderr, "demo: -store %q: want directory or s3\n", *store)
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := demo(ctx, *binary, *store == "s3"); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		cancel()
		os.Exit(1)
	}
}

// demo runs everything and cleans up behind itself. What the node left behind is
// kept when something failed.
func demo(ctx context.Context, binary string, s3 bool) error {
	s, err := newStage(binary, s3)
	if err != nil {
		return err
	}
	err = s.play(ctx)
	if err == nil && os.Getenv("DEMO_EXIT") != "1" {
		s.invite()
		<-ctx.Done()
		fmt.Println("\nstopping the node and PostgreSQL")
	}
	return errors.Join(err, s.strike(err != nil && ctx.Err() == nil))
}
