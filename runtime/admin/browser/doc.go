// Package browser holds the console of package admin, and the page of examples/demo, in a real browser. It is a separate
// module, since its tests need a headless Chromium and a library to drive it. make browser runs them. The package
// makes no promise of compatibility.
package browser
