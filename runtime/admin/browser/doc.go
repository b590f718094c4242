// Package browser holds the console of package admin in a real browser: its tests are a module of their
// own, since they need a headless Chromium and a library to drive it. make browser runs them. The package
// makes no promise of compatibility.
package browser
