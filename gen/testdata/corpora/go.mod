// The module whose data is one of the corpora: no Go of it is built.
module example.com/corpora

go 1.26.0

require github.com/stripe/stripe-mock v0.203.0
