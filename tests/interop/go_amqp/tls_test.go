//go:build tls

package interop

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/go-amqp"
)

// HEADGATE_URL, HEADGATE_CA, HEADGATE_CERTIFICATE and HEADGATE_KEY say where the broker and the files are. Run by
// tests/interop/over_tls.py.

func trusting(t *testing.T) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(must[[]byte](t)(os.ReadFile(os.Getenv("HEADGATE_CA"))))
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

func roundtrip(t *testing.T, url string, opts *amqp.ConnOptions) {
	ctx := ctxFor(t)
	conn := must[*amqp.Conn](t)(amqp.Dial(ctx, url, opts))
	defer func() { check(t, conn.Close()) }()
	s := must[*amqp.Session](t)(conn.NewSession(ctx, nil))
	out := sender(t, s, "/queues/tls-go", nil)
	in := receiver(t, s, "/queues/tls-go", nil)
	for _, body := range []string{"small", strings.Repeat("x", 200_000)} {
		check(t, out.Send(ctx, amqp.NewMessage([]byte(body)), nil))
		msg := must[*amqp.Message](t)(in.Receive(ctx, nil))
		if string(msg.GetData()) != body {
			t.Fatalf("got %d bytes, expected %d", len(msg.GetData()), len(body))
		}
		check(t, in.AcceptMessage(ctx, msg))
	}
}

func TestTLSWithAPassword(t *testing.T) {
	roundtrip(t, os.Getenv("HEADGATE_URL"), &amqp.ConnOptions{TLSConfig: trusting(t)})
}

func TestTLSWithACertificate(t *testing.T) {
	config := trusting(t)
	pair := must[tls.Certificate](t)(tls.LoadX509KeyPair(os.Getenv("HEADGATE_CERTIFICATE"), os.Getenv("HEADGATE_KEY")))
	config.Certificates = []tls.Certificate{pair}
	url := regexp.MustCompile("//.*@").ReplaceAllString(os.Getenv("HEADGATE_URL"), "//")
	roundtrip(t, url, &amqp.ConnOptions{TLSConfig: config, SASLType: amqp.SASLTypeExternal("")})
}

func TestTLSOfAnUnknownAuthority(t *testing.T) {
	conn, err := amqp.Dial(ctxFor(t), os.Getenv("HEADGATE_URL"), &amqp.ConnOptions{TLSConfig: &tls.Config{ServerName: "localhost"}})
	if err == nil {
		check(t, conn.Close())
	}
	if err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Fatalf("got %v", err)
	}
}
