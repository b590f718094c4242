package orders

import "sync"

// An orderQueue executes orders from the control log one by one in a separate goroutine. While an order is executed,
// the follower can handle changed records.
type orderQueue struct {
	do    func(Order)
	over  func() bool // reports that orders are no longer executed
	tasks sync.WaitGroup

	mu      sync.Mutex
	working bool
	queue   []Order
}

// add queues an order.
func (b *orderQueue) add(o Order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, o)
	if !b.working {
		b.working = true
		b.tasks.Go(b.executeQueued)
	}
}

func (b *orderQueue) executeQueued() {
	for {
		b.mu.Lock()
		if len(b.queue) == 0 || b.over() {
			b.working, b.queue = false, nil
			b.mu.Unlock()
			return
		}
		o := b.queue[0]
		b.queue = b.queue[1:]
		b.mu.Unlock()
		b.do(o)
	}
}

func (b *orderQueue) wait() { b.tasks.Wait() }
