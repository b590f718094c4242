package browser

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// demo runs the page of make demo OPEN=1 and returns its URL.
func demo(t *testing.T) string {
	t.Helper()
	bin, root := t.TempDir(), filepath.Join("..", "..", "..")
	build := exec.Command("go", "build", "-o", bin, "./examples/github", "./examples/demo")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(filepath.Join(bin, "demo"), "-bin", bin, "-page")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the demo ended with %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(line, "The page is on ")
	url, _, _ := strings.Cut(rest, " ")
	return url
}

// On the page of the demo each button does what it says, by mouse or by keyboard, and it fits on a desk and on a phone.
func TestDemoPage(t *testing.T) {
	axe, url := readAxe(t), demo(t)
	p := newTab(t, strings.Trim(strings.TrimPrefix(url, "http:"), "/"))
	sent := 0
	shows := func(way, text string) {
		t.Helper()
		until(t, way+" shows "+text, func() bool { return strings.Contains(p.text("#"+way), text) })
	}
	press := func(selector string) {
		t.Helper()
		p.do(chromedp.Click(selector+":enabled", chromedp.ByQuery))
	}
	send := func() {
		t.Helper()
		press("#send")
		sent++
	}
	for i, width := range []int64{1280, 390} {
		p.do(chromedp.EmulateViewport(width, 844), chromedp.Navigate(url), chromedp.WaitVisible("#webhook button", chromedp.ByQuery))
		if w := eval[int](p, "document.documentElement.scrollWidth"); w > int(width) {
			t.Errorf("the page is %d wide on a screen of %d", w, width)
		}
		p.named(fmt.Sprintf("the demo at %d", width))
		all := func() string { return fmt.Sprintf("has %d of %d", sent, sent) }
		send()
		for _, way := range []string{"poll", "push", "webhook"} {
			shows(way, all())
			press("#" + way + " button")
			shows(way, "paused")
			send()
			shows(way, fmt.Sprintf("has %d of %d", sent-1, sent))
			press("#" + way + " button")
			shows(way, "subscribed")
			shows(way, all())
		}
		press("#kill")
		shows("up", "away")
		send()
		shows("verdict", "was killed")
		shows("up", "up")
		until(t, "nothing is lost", func() bool { return strings.Contains(p.text("#verdict"), fmt.Sprintf("all %d events", sent)) })
		shows("kills", []string{"1 kill", "2 kills"}[i])
		p.accessible(fmt.Sprintf("the demo at %d", width), axe)
		if problem := p.text("#problem"); problem != "" {
			t.Errorf("a problem: %s", problem)
		}
		var png []byte
		p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
			chromedp.Evaluate("scrollTo(0, 0)", nil), chromedp.CaptureScreenshot(&png))
		if len(png) < 5000 || len(png) > 150_000 {
			t.Errorf("the screenshot at %d has %d bytes", width, len(png))
		}
		if *update {
			if err := os.WriteFile(filepath.Join("..", "..", "..", "docs", "images", fmt.Sprintf("demo-%d.png", width)), png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
