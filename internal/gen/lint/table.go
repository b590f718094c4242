package lint

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

var table = []entry{
	{rule.Rule{ID: "EVENT_DESCRIPTION", Category: Minimal, Severity: source.Error, Purpose: "An event's description says when it fires."}, eventDescription},
	{rule.Rule{ID: "INPUT_OPEN", Category: Minimal, Severity: source.Error, Purpose: "An inputSchema refuses arguments that it does not declare, so that a misspelt one is noticed."}, inputOpen},
	{rule.Rule{ID: "DEPRECATED_REPLACEMENT", Category: Minimal, Severity: source.Warning, Purpose: "A deprecated event names the event that replaces it."}, deprecatedReplacement},
	{rule.Rule{ID: "DEPRECATED_OVERDUE", Category: Minimal, Severity: source.Warning, Purpose: "A deprecated event is removed after the date that was announced."}, deprecatedOverdue},
	{rule.Rule{ID: "KEYWORD_WITHOUT_EFFECT", Category: Minimal, Severity: source.Warning, Purpose: "A keyword checks values of the type that the schema has."}, keywordWithoutEffect},
	{rule.Rule{ID: "SCHEMA_UNUSED", Category: Minimal, Severity: source.Warning, Purpose: "A shared schema is referred to."}, schemaUnused},

	{rule.Rule{ID: "EVENT_NAME_STYLE", Category: Standard, Severity: source.Error, Purpose: "Event names are lower-case words joined by '_' within a part and by '.' between parts."}, eventNameStyle},
	{rule.Rule{ID: "SCHEMA_NAME_STYLE", Category: Standard, Severity: source.Warning, Purpose: "Shared schemas are named in UpperCamelCase."}, schemaNameStyle},
	{rule.Rule{ID: "PROPERTY_NAME_STYLE", Category: Standard, Severity: source.Warning, Purpose: "Properties are named in lowerCamelCase or in snake_case, the same in a whole file."}, propertyNameStyle},
	{rule.Rule{ID: "ENUM_VALUE_STYLE", Category: Standard, Severity: source.Warning, Purpose: "The words of an enum are written alike."}, enumValueStyle},
	{rule.Rule{ID: "TOOL_NAME_LONG", Category: Standard, Severity: source.Warning, Purpose: "A tool's name has at most 48 characters: clients prefix names, and many refuse more than 64."}, toolNameLong},
	{rule.Rule{ID: "ARGUMENT_DESCRIPTION", Category: Standard, Severity: source.Warning, Purpose: "An argument is described, since a model chooses its value by the description."}, argumentDescription},
	{rule.Rule{ID: "ARGUMENT_UNMATCHED", Category: Standard, Severity: source.Note, Purpose: "An argument has an x-match or a default, or else only hooks can give it a meaning."}, argumentUnmatched},
	{rule.Rule{ID: "COALESCE_KEY_OPTIONAL", Category: Standard, Severity: source.Warning, Purpose: "The key of an x-coalesce is always there: an event without it is joined with no other."}, coalesceKeyOptional},
	{rule.Rule{ID: "EXPERIMENTAL_NOTE", Category: Standard, Severity: source.Warning, Purpose: "The description of an experimental event says that it may change: the stability is not published."}, experimentalNote},
	{rule.Rule{ID: "PAYLOAD_FREE_TEXT", Category: Standard, Severity: source.Warning, Purpose: "A payload carries no long free text: a link or an ID is enough to fetch it (SRV-7)."}, payloadFreeText},
	{rule.Rule{ID: "PAYLOAD_BINARY", Category: Standard, Severity: source.Warning, Purpose: "A payload carries no encoded binary data (SRV-7)."}, payloadBinary},
	{rule.Rule{ID: "PAYLOAD_SIZE", Category: Standard, Severity: source.Warning, Purpose: "A payload describes at most 60 fields, nested ones included (SRV-7)."}, payloadSize},
	{rule.Rule{ID: "SHAPE_REPEATED", Category: Standard, Severity: source.Note, Purpose: "A repeated object, enumeration or union is written once; the ten that cost most are reported."}, shapeRepeated},
	{rule.Rule{ID: "TIME_FORMAT", Category: Standard, Severity: source.Warning, Purpose: "A field that is named like a time, such as createdAt, is a string of format date-time."}, timeFormat},
	{rule.Rule{ID: "REQUIRED_MISSING", Category: Standard, Severity: source.Warning, Purpose: "An object of a payload says which fields are always there."}, requiredMissing},
	{rule.Rule{ID: "ID_OPTIONAL", Category: Standard, Severity: source.Warning, Purpose: "The ID of the subject of a payload is required."}, idOptional},

	{rule.Rule{ID: "EVENT_NAME_PAST", Category: Strict, Severity: source.Warning, Purpose: "An event name is a noun and a verb in the past, such as incident.created."}, eventNamePast},
	{rule.Rule{ID: "PROPERTY_DESCRIPTION", Category: Strict, Severity: source.Warning, Purpose: "A payload field is described."}, propertyDescription},
	{rule.Rule{ID: "DESCRIPTION_PERIOD", Category: Strict, Severity: source.Warning, Purpose: "A description is sentences and ends like one."}, descriptionPeriod},
	{rule.Rule{ID: "STRING_UNBOUNDED", Category: Strict, Severity: source.Warning, Purpose: "A string has a maxLength, a format, a pattern or listed values."}, stringUnbounded},
	{rule.Rule{ID: "ARRAY_UNBOUNDED", Category: Strict, Severity: source.Warning, Purpose: "An array has a maxItems."}, arrayUnbounded},
	{rule.Rule{ID: "URI_FORMAT", Category: Strict, Severity: source.Warning, Purpose: "A string that is named like a URL has format uri."}, uriFormat},
}
