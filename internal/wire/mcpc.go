package wire

// Names of MCPC, as used in the releases of the original implementation.
const (
	// MCPCProtocol is the value of protocol in every message (MCPC-MSG-1).
	MCPCProtocol = "mcpc"
	// MCPCVersion is the release that this module implements.
	MCPCVersion = "0.2.6"
	// MCPCCallback is the id of the JSON-RPC responses that carry callbacks (MCPC-WIRE-1).
	MCPCCallback = "MCPC_CALLBACK"
	// MCPCSession is the default session_id of a call (MCPC-META-1).
	MCPCSession = "default"
	// MCPCEvent is the event type of task messages (MCPC-WIRE-2).
	MCPCEvent = "mcpc.task"
)

// Message types and task events (MCPC-MSG-2).
const (
	MCPCTask        = "task"
	MCPCServerEvent = "server_event"

	MCPCCreated  = "created"
	MCPCUpdate   = "update"
	MCPCComplete = "complete"
	MCPCFailed   = "failed"
)

// Names for the check tool in the releases (MCPC-INIT-1).
const (
	// MCPCCheck is the documented name in 0.2.0 to 0.2.2.
	MCPCCheck = "is_mcpc_enabled"
	// MCPCCheckHidden is the name in 0.2.3 and 0.2.4.
	MCPCCheckHidden = "_is_mcpc_enabled"
	// MCPCInit is the name since 0.2.5. MCPCInfo is the name of its argument.
	MCPCInit = "_mcpc_init"
	MCPCInfo = "mcpc_info"
)

// Names in the metadata of a tool call (MCPC-META-1).
const (
	// MCPCMetadata is the argument that contains MCPCMetadataSession and MCPCMetadataTask, up to 0.2.4.
	MCPCMetadata        = "_metadata"
	MCPCMetadataSession = "mcpc_session_id"
	MCPCMetadataTask    = "mcpc_task_id"
	// MCPCParams is the argument that contains MCPCParamsSession and MCPCParamsTask, since 0.2.5.
	MCPCParams        = "mcpc_params"
	MCPCParamsSession = "session_id"
	MCPCParamsTask    = "task_id"
)
