package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"millrace/test/s3server"
)

// putTask is what the peer does: it puts files, so many at a time.
type putTask struct {
	Endpoint, Bucket string
	Pieces           []piece
	Concurrency      int
	Given            bool // each piece's checksum; else the SDK computes it
}

// piece is one file, with the checksum that its request carries.
type piece struct {
	Path string
	CRC  uint32
}

// putLoop is the least that a program can do to get files into a bucket with the SDK: its
// defaults, a file as the body, a CRC-32C. As ours, its payload is not signed; the SDK's
// default, without TLS, would have it read each file once more.
func putLoop(task []byte) error {
	var t putTask
	if err := json.Unmarshal(task, &t); err != nil {
		return err
	}
	api := s3.New(s3.Options{
		Region: s3server.Region, BaseEndpoint: aws.String(t.Endpoint), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s3server.AccessKeyID, s3server.SecretKey, ""),
	})
	work := make(chan piece)
	failed := make([]error, t.Concurrency)
	var wg sync.WaitGroup
	for i := range t.Concurrency {
		wg.Go(func() {
			for p := range work {
				failed[i] = errors.Join(failed[i], putFile(api, t, p))
			}
		})
	}
	for _, p := range t.Pieces {
		work <- p
	}
	close(work)
	wg.Wait()
	return errors.Join(failed...)
}

func putFile(api *s3.Client, t putTask, p piece) error {
	f, err := os.Open(p.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	in := &s3.PutObjectInput{
		Bucket: aws.String(t.Bucket), Key: aws.String(filepath.Base(p.Path)), Body: f, ContentLength: aws.Int64(info.Size()),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
	}
	if t.Given {
		in.ChecksumCRC32C = aws.String(base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, p.CRC)))
	}
	_, err = api.PutObject(context.Background(), in, func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
	})
	return err
}
