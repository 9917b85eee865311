package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"sallyport/audit"
)

// unsealed is what `audit unseal --json` prints. Its form is stable.
type unsealed struct {
	Seq       audit.Seq       `json:"seq"`
	Call      string          `json:"call"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
	Confirmed bool            `json:"confirmed"` // the record's keyed digest is of these arguments
}

func auditUnseal() *cobra.Command {
	var identity string
	cmd := &cobra.Command{
		Use: "unseal CALL", Short: "Show the unredacted arguments of a call, with the private key they were sealed to", Args: cobra.ExactArgs(1),
		Long: `Decrypt the arguments of a call that redaction took something out of. They are kept where audit.seal_to
names age public keys; the private half is read from a file here and goes nowhere else.`,
		Example: "  age-keygen -o offline.key     # its public key goes into audit.seal_to\n  sallyport audit unseal k7f3qdm2c5zpa6xw --identity offline.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := openBackend(cmd, needLog)
			if err != nil {
				return err
			}
			defer b.close()
			rec, err := sealedRecord(cmd, b, args[0])
			if err != nil {
				return err
			}
			var got struct{ Sealed []byte }
			if err := b.do(cmd.Context(), http.MethodGet, fmt.Sprintf("/v1/audit/sealed/%d", rec.Seq), nil, &got); err != nil {
				return err
			}
			key, err := os.Open(identity)
			if err != nil {
				return fmt.Errorf("read the identity: %w", err)
			}
			defer key.Close()
			raw, err := audit.Unseal(got.Sealed, key)
			if err != nil {
				return err
			}
			var digest map[string]string
			if err := b.do(cmd.Context(), http.MethodPost, "/v1/audit/hash", map[string]string{"Value": string(raw)}, &digest); err != nil {
				return err
			}
			out := unsealed{rec.Seq, rec.Call, rec.Tool, raw, digest["digest"] == rec.ArgsDigest}
			if wantsJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), out)
			}
			if !out.Confirmed {
				fmt.Fprintln(cmd.ErrOrStderr(), "sallyport: the record's digest of the arguments is another one")
			}
			fmt.Fprintln(cmd.OutOrStdout(), string(raw))
			return nil
		},
	}
	cmd.Flags().StringVar(&identity, "identity", "", "file with the age private key")
	_ = cmd.MarkFlagRequired("identity")
	return cmd
}

// sealedRecord is the record of a call that has sealed arguments.
func sealedRecord(cmd *cobra.Command, b *backend, call string) (audit.Record, error) {
	var found *audit.Record
	known := false
	err := b.records(cmd.Context(), audit.Filter{Call: call}, func(r audit.Record) {
		known = true
		if r.SealedArgs != "" {
			found = &r
		}
	})
	switch {
	case err != nil:
		return audit.Record{}, err
	case !known:
		return audit.Record{}, errors.New("no call is " + call + ": `sallyport audit list --json` names them")
	case found == nil:
		return audit.Record{}, audit.ErrNotSealed
	}
	return *found, nil
}
