package audit

// class says what may be in a field.
type class int

const (
	// plain fields hold names, numbers and digests that Sallyport makes itself.
	plain class = iota + 1
	// name fields hold names and identifiers that others chose.
	name
	// redacted fields hold what agents, programs or people wrote.
	redacted
)

// fieldClasses classes every field of Record and of the types in it, by Go name. A field
// that is missing here fails a test, so nobody adds one without a thought.
var fieldClasses = map[string]class{
	"SealedArgs": plain, "Version": plain, "Seq": plain, "Kind": plain, "Time": plain, "Mono": plain, "Boot": plain,
	"Event": plain, "Call": plain, "Intent": plain, "Status": plain, "Exit": plain, "Took": plain,
	"Session": name, "Agent": name, "User": name, "Client": name, "Sources": redacted,
	"Key": name, "Trace": name,
	"Workspace": name, "Branch": name, "Commit": name,
	"Tool": name, "Args": redacted, "ArgsDigest": plain, "Action": redacted, "Facts": redacted,
	"Decision": redacted, "Tier": plain, "Verdict": plain, "Rules": redacted, "Revision": plain,
	"Approval": name, "Person": name,
	"Error": redacted, "Level": plain, "Walls": redacted, "Usage": redacted, "Limits": redacted,
	"Denials": redacted, "Outputs": redacted, "Changes": redacted, "Head": name, "Detail": redacted,
	"Redacted":    plain,
	"Output.Name": plain, "Output.Bytes": plain, "Output.SHA256": plain, "Output.Preview": redacted,
	"Change.Path": redacted, "Change.Kind": plain, "Change.Before": plain, "Change.After": plain,
}
