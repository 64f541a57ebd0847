// What a call was answered, as it came over the wire.

package main

import (
	"context"
	"encoding/base64"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Call is one call: the scenario's name for it, and everything the client was given.
type Call struct {
	Name     string      `json:"name"`
	Path     string      `json:"path"`
	Code     uint32      `json:"code"`
	Details  string      `json:"details"`
	Reply    string      `json:"reply"`
	Initial  metadata.MD `json:"initial"`
	Trailing metadata.MD `json:"trailing"`
}

// Recorder remembers the calls of a client, which are made one after another.
type Recorder struct {
	calls []Call
	name  string
	raw   []byte
}

func (r *Recorder) intercept(
	ctx context.Context, path string, asked, answer any,
	connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	var initial, trailing metadata.MD
	r.raw = nil
	err := invoke(ctx, path, asked, answer, connection, append(options, grpc.Header(&initial), grpc.Trailer(&trailing))...)
	said := status.Convert(err)
	r.calls = append(r.calls, Call{
		Name: r.name, Path: path, Code: uint32(said.Code()), Details: said.Message(),
		Reply: base64.StdEncoding.EncodeToString(r.raw), Initial: initial, Trailing: trailing,
	})
	return err
}

// codec stands in for gRPC's own under the same name, so that nothing changes on the wire: it keeps the bytes of a reply
// before they are read, and writes the entries of a map in one order, so that two runs store the same.
type codec struct{ recorder *Recorder }

func (codec) Name() string { return "proto" }

func (codec) Marshal(value any) (mem.BufferSlice, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(value.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

func (c codec) Unmarshal(data mem.BufferSlice, value any) error {
	c.recorder.raw = data.Materialize()
	return proto.Unmarshal(c.recorder.raw, value.(proto.Message))
}

func recording() *Recorder {
	recorder := &Recorder{name: "connect", calls: []Call{}}
	encoding.RegisterCodecV2(codec{recorder})
	return recorder
}
