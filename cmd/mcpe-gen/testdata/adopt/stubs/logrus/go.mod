module github.com/sirupsen/logrus

go 1.25.0
