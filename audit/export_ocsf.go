package audit

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
)

// ocsfEvent is an OCSF 1.8.0 API Activity (class 6003) with the profiles
// ai_operation and security_control. Names and numbers are the schema's.
type ocsfEvent struct {
	ActivityID     int               `json:"activity_id"`
	CategoryUID    int               `json:"category_uid"`
	ClassUID       int               `json:"class_uid"`
	TypeUID        int               `json:"type_uid"`
	SeverityID     int               `json:"severity_id"`
	Time           int64             `json:"time"` // ms
	Duration       int64             `json:"duration,omitempty"`
	StatusID       int               `json:"status_id"`
	StatusDetail   string            `json:"status_detail,omitempty"`
	Message        string            `json:"message,omitempty"`
	ActionID       int               `json:"action_id"`
	DispositionID  int               `json:"disposition_id"`
	Metadata       ocsfMetadata      `json:"metadata"`
	Actor          ocsfActor         `json:"actor"`
	API            ocsfAPI           `json:"api"`
	SrcEndpoint    ocsfNamed         `json:"src_endpoint"`
	Resources      []ocsfNamed       `json:"resources,omitempty"`
	MessageContext ocsfContext       `json:"message_context"`
	Unmapped       map[string]string `json:"unmapped,omitempty"`
}

type ocsfMetadata struct {
	Version     string      `json:"version"`
	Profiles    []string    `json:"profiles"`
	Product     ocsfProduct `json:"product"`
	UID         string      `json:"uid"`
	Sequence    int64       `json:"sequence"`
	Correlation string      `json:"correlation_uid,omitempty"`
	LogName     string      `json:"log_name"`
	EventCode   string      `json:"event_code"`
}

type ocsfProduct struct {
	Name   string `json:"name"`
	Vendor string `json:"vendor_name"`
}

type ocsfNamed struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

type ocsfActor struct {
	User    ocsfNamed `json:"user"`
	Session ocsfNamed `json:"session"`
	AppName string    `json:"app_name,omitempty"`
}

type ocsfAPI struct {
	Operation string       `json:"operation"`
	Service   ocsfNamed    `json:"service"`
	Request   ocsfRequest  `json:"request"`
	Response  ocsfResponse `json:"response"`
}

type ocsfRequest struct {
	UID  string          `json:"uid"`
	Data json.RawMessage `json:"data,omitempty"`
}

type ocsfResponse struct {
	Code  int    `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
}

type ocsfContext struct {
	UID         string    `json:"uid,omitempty"`
	RoleID      int       `json:"ai_role_id"`
	Application ocsfNamed `json:"application"`
	Service     ocsfNamed `json:"service"`
}

func (r *Reader) exportOCSF(ctx context.Context, w io.Writer, f Filter) error {
	enc := encoder(w)
	return r.each(ctx, f, func(rec Record) error { return enc.Encode(r.ocsf(&rec)) })
}

func (r *Reader) ocsf(rec *Record) ocsfEvent {
	activity := ocsfActivity(rec)
	e := ocsfEvent{
		ActivityID: activity, CategoryUID: 6, ClassUID: 6003, TypeUID: 600300 + activity,
		SeverityID: map[string]int{"L2": 2, "L3": 4}[rec.Tier], // low, high
		Time:       rec.Time.UnixMilli(), Duration: rec.Took.Milliseconds(),
		StatusID: ocsfStatus(rec.Status), StatusDetail: string(rec.Status), Message: rec.Error,
		Metadata: ocsfMetadata{
			Version: "1.8.0", Profiles: []string{"ai_operation", "security_control"}, Product: ocsfProduct{"Sallyport", "Sallyport"},
			UID: r.keys.origin + "/" + strconv.FormatUint(uint64(rec.Seq), 10), Sequence: int64(rec.Seq), Correlation: rec.Call,
			LogName: r.keys.origin, EventCode: string(rec.Kind),
		},
		Actor: ocsfActor{ocsfNamed{Name: or(rec.User, "unknown")}, ocsfNamed{UID: rec.Session}, rec.Agent},
		API: ocsfAPI{
			Operation: or(or(rec.Tool, rec.Event), "unknown"), Service: ocsfNamed{Name: "sallyport"},
			Request: ocsfRequest{rec.Call, rec.Args}, Response: ocsfResponse{Error: rec.Error},
		},
		SrcEndpoint:    ocsfNamed{Name: or(rec.Client, "local"), UID: rec.Agent},
		MessageContext: ocsfContext{rec.Session, 4, ocsfNamed{Name: or(rec.Client, "unknown")}, ocsfNamed{Name: "sallyport"}}, // 4: agent
		Unmapped:       map[string]string{},
	}
	e.ActionID, e.DispositionID = ocsfDisposition(rec)
	if e.SeverityID == 0 {
		e.SeverityID = 1 // informational
	}
	if rec.Exit != nil {
		e.API.Response.Code = *rec.Exit
	}
	for _, p := range pathsOf(rec) {
		e.Resources = append(e.Resources, ocsfNamed{Name: p})
	}
	for name, v := range map[string]string{"tier": rec.Tier, "verdict": rec.Verdict, "revision": rec.Revision, "approval": rec.Approval, "person": rec.Person, "event": rec.Event} {
		if v != "" {
			e.Unmapped[name] = v
		}
	}
	return e
}

// ocsfActivity tells create, read, update or delete from what a call did.
func ocsfActivity(r *Record) int {
	switch {
	case len(r.Changes) == 0 && r.Tier == "L0":
		return 2
	case len(r.Changes) == 0:
		return 99
	case r.Changes[0].Kind == "added":
		return 1
	case r.Changes[0].Kind == "removed":
		return 4
	}
	return 3
}

func ocsfStatus(s Status) int {
	switch s {
	case StatusOK:
		return 1
	case StatusFailed, StatusInvalid, StatusDenied, StatusTimeout, StatusCancelled, StatusInterrupted:
		return 2
	}
	return 0
}

// ocsfDisposition is action (1 allowed, 2 denied) and disposition (1 allowed, 2
// blocked, 0 not known yet).
func ocsfDisposition(r *Record) (action, disposition int) {
	switch {
	case r.Status == StatusDenied || r.Verdict == "deny":
		return 2, 2
	case r.Verdict == "allow" || r.Status == StatusOK:
		return 1, 1
	}
	return 0, 0
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
