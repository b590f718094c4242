package operator

import "time"

// A Window lists the occurrences with timestamps between two times, and the results of their deliveries.
type Window struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Occurrences are sorted by event type and position.
	Occurrences []Happened `json:"occurrences"`
	// Next is the after parameter for the next page, or "" on the last page.
	Next string `json:"next,omitempty"`
	// Attempts is the number of recorded attempts made between the two times, for any occurrence. Failures is the
	// number of those attempts that failed.
	Attempts int `json:"attempts"`
	Failures int `json:"failures"`
	// Subscriptions is the number of subscriptions that were examined for attempts. Whole reports whether all
	// subscriptions were examined.
	Subscriptions int  `json:"subscriptions"`
	Whole         bool `json:"whole"`
}

// A Happened is an occurrence with the results of its deliveries. The results include only attempts that the store
// still retains.
type Happened struct {
	Occurrence
	// Attempts is the total number of attempts to deliver the occurrence, regardless of when they were made.
	Attempts int `json:"attempts"`
	// Accepted, Waiting and Failed count webhook subscriptions with attempts by [Outcome].
	Accepted int `json:"accepted"`
	Waiting  int `json:"waiting"`
	Failed   int `json:"failed"`
	// LastAt is the time of the latest attempt, or zero if Attempts is 0. LastError is the error category of that
	// attempt, or "" if it succeeded. LastStatus is the HTTP status of the response, or 0 without one.
	LastAt     time.Time `json:"lastAt,omitzero"`
	LastError  string    `json:"lastError,omitempty"`
	LastStatus int       `json:"lastStatus,omitempty"`
}

// A LatencySample reports how fast webhook endpoints respond. It is based on the recorded attempts of up to 1,000
// subscriptions, made by any process.
type LatencySample struct {
	// Endpoints contains a row for each host, or for each URL if the filter specifies a host. Types contains a row for
	// each event type. The rows are sorted from slowest to fastest.
	Endpoints []Latency `json:"endpoints"`
	Types     []Latency `json:"types"`
	// Subscriptions and Attempts are the size of the sample. Whole reports whether the sample includes every
	// subscription that matches the filter.
	Subscriptions int  `json:"subscriptions"`
	Attempts      int  `json:"attempts"`
	Whole         bool `json:"whole"`
}

// A Latency is a row of a [LatencySample]. It describes a host, a URL or an event type.
type Latency struct {
	Host  string `json:"host,omitempty"`
	URL   string `json:"url,omitempty"`
	Event string `json:"event,omitempty"`
	// Attempts is the number of attempts in the sample. Failures is the number of failed attempts.
	Attempts int `json:"attempts"`
	Failures int `json:"failures"`
	// Timed is the number of attempts that received a response or timed out. P50 and P95 are percentiles of their
	// durations, or 0 if Timed is 0.
	Timed int           `json:"timed"`
	P50   time.Duration `json:"-"`
	P95   time.Duration `json:"-"`
}

// A Delay explains why deliveries to a webhook subscription are delayed.
type Delay struct {
	// Reason is "" if no occurrence is waiting. Otherwise, it is "unreadable", "paused", "suspended", "retrying",
	// "replaying", "limited", "queued", "slow", "backlog" or "unreported".
	Reason string `json:"reason"`
	// Text is a human-readable explanation with times in UTC.
	Text string `json:"text"`
	// Since is the time when the state described by Reason began. NextAt is the time of the next attempt. Each is zero
	// if unknown.
	Since  time.Time `json:"since,omitzero"`
	NextAt time.Time `json:"nextAt,omitzero"`
	// LostAt is the time when the first waiting occurrence will be lost if it is not delivered. It is zero if the
	// occurrence will not be lost or the time is unknown.
	LostAt time.Time `json:"lostAt,omitzero"`
	// Help is the recommended action: "unpause", "resume", "endreplay", or "send" for EventID. It is "" if no action
	// helps.
	Help    string `json:"help,omitempty"`
	EventID string `json:"eventId,omitempty"`
}
