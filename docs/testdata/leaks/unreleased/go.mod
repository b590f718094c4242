module unreleased.test

go 1.26
