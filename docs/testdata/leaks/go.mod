module leaks.test

go 1.26

require unreleased.test v0.0.0-20260820222146-c27c302e5fc3

replace unreleased.test => ./unreleased
