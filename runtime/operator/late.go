package operator

import "time"

// A Window lists the occurrences between two times, by their own timestamps, with the results of their deliveries.
type Window struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Occurrences are sorted by event type and position.
	Occurrences []Happened `json:"occurrences"`
	// Next is the after parameter of the next page; "" on the last page.
	Next string `json:"next,omitempty"`
	// Attempts counts the recorded attempts made between the two times, for any occurrence. Failures counts the failed
	// ones.
	Attempts int `json:"attempts"`
	Failures int `json:"failures"`
	// Subscriptions counts the subscriptions whose attempts were examined. Whole reports whether these are all.
	Subscriptions int  `json:"subscriptions"`
	Whole         bool `json:"whole"`
}

// A Happened is an occurrence with the results of its deliveries, as far as the store keeps their attempts.
type Happened struct {
	Occurrence
	// Attempts counts all attempts to deliver it, at any time.
	Attempts int `json:"attempts"`
	// Accepted, Waiting and Failed count webhook subscriptions with attempts, by their [Outcome].
	Accepted int `json:"accepted"`
	Waiting  int `json:"waiting"`
	Failed   int `json:"failed"`
	// LastAt is the time of the latest attempt, zero without attempts. LastError is the error category of that attempt.
	LastAt    time.Time `json:"lastAt,omitzero"`
	LastError string    `json:"lastError,omitempty"`
}

// A LatencySample reports how fast webhook endpoints answer. It draws on the recorded attempts of up to 1,000
// subscriptions, from all processes.
type LatencySample struct {
	// Endpoints has a row for each host, or for each URL if the filter names a host. Types has a row for each event
	// type. The slowest come first.
	Endpoints []Latency `json:"endpoints"`
	Types     []Latency `json:"types"`
	// Subscriptions and Attempts are the size of the sample. Whole reports whether the sample has every subscription
	// that the filter picks.
	Subscriptions int  `json:"subscriptions"`
	Attempts      int  `json:"attempts"`
	Whole         bool `json:"whole"`
}

// A Latency is a row of a [LatencySample]. It describes a host, a URL or an event type.
type Latency struct {
	Host  string `json:"host,omitempty"`
	URL   string `json:"url,omitempty"`
	Event string `json:"event,omitempty"`
	// Attempts counts the attempts in the sample. Failures counts the failed ones.
	Attempts int `json:"attempts"`
	Failures int `json:"failures"`
	// Timed counts the attempts that got an answer or timed out. P50 and P95 are percentiles of their durations; 0 if
	// Timed is 0.
	Timed int           `json:"timed"`
	P50   time.Duration `json:"-"`
	P95   time.Duration `json:"-"`
}

// A Delay explains why a webhook subscription is late, if it is.
type Delay struct {
	// Reason is "" if nothing is waiting. Otherwise it is "unreadable", "paused", "suspended", "retrying", "replaying",
	// "limited", "queued", "slow", "backlog" or "elsewhere".
	Reason string `json:"reason"`
	// Text is the explanation in words, with times in UTC.
	Text string `json:"text"`
	// Since is the time when the state named by Reason began. NextAt is the time of the next attempt. Either is zero if
	// unknown.
	Since  time.Time `json:"since,omitzero"`
	NextAt time.Time `json:"nextAt,omitzero"`
	// LostAt is when the first waiting occurrence is lost unless it is delivered before; zero if never or unknown.
	LostAt time.Time `json:"lostAt,omitzero"`
	// Help is the action that helps: "unpause", "resume", "endreplay", or "send" for EventID. It is "" if none does.
	Help    string `json:"help,omitempty"`
	EventID string `json:"eventId,omitempty"`
}
