// Package browser tests the console of package admin and the page of examples/demo in a real browser. It is a separate
// module, because its tests need headless Chromium and a library to control it. Run the tests with make browser. The
// package makes no compatibility promise.
package browser
