#pragma once

#include <nlohmann/json.hpp>

#include "libsim/explain/explanation.hpp"

namespace stagecraft {

/// The document of `explain --json`, schema stagecraft.explanation/1. Bytes are integers and per
/// GPU, times seconds; what does not apply is null.
///
///     {"schema": "stagecraft.explanation/1", "plan": "<fingerprint>", "config": {...},
///      "iteration_seconds": 0.0, "peak_bytes": 0, "free_bytes": 0, "fits": true,
///      "verdict": "fits", "fits_probability": null, "fits_probability_reason": "...",
///      "stages": [{"stage": 0, "peak_bytes": 0, "reserved_bytes": 0, "device_bytes": 0,
///                  "margin_bytes": 0, "verdict": "fits", "fits_probability": null}],
///      "reserved": {"stage": 0, "counted_bytes": 0, "reserved_bytes": 0, "requested_bytes": 0,
///                   "rounding_bytes": 0, "fragment_bytes": 0, "cached_bytes": 0,
///                   "pools": {"small": {"reserved_bytes": 0, "live_bytes": 0}, "large": {...}},
///                   "request_bytes": 0, "request_of": "...", "in_step": false,
///                   "free": [{"pool": "large", "size": 0, "blocks": 0, "is_fragment": true}]},
///      "peak": {"stage": 0, "seconds": 0.0,
///               "event": {"op": "core_attention.scores", "phase": "recompute", "layer": 0,
///                         "microbatch": 0, "chunk": 0},
///               "at_peak": {"parameters": 0, ...},
///               "tensors": [{"tensor": "core_attention.softmax_output", "category": "activations",
///                            "stay": "kept", "bytes": 0, "buffers": 0, "layers": 0,
///                            "microbatches": 0, "passes": 0, "made_by":
///                            ["core_attention.softmax"], "needed_by":
///                            "core_attention.softmax_backward"}]},
///      "critical_path": {"seconds": {"forward": 0.0, "backward": 0.0, "recompute": 0.0,
///                                    "tensor_parallel": 0.0, "head_and_embedding": 0.0,
///                                    "pipeline_transfer": 0.0, "bubble": 0.0,
///                                    "data_parallel": 0.0, "optimizer": 0.0},
///                        "seconds_by_stage": [0.0], "messages": 0},
///      "busiest_stage": {"stage": 0, "seconds": {"forward": 0.0, ...}},
///      "changes": [{"change": "no recompute", "set": ["recompute=none"], "undoes": null,
///                   "iteration_seconds": 0.0, "peak_bytes": 0, "fullest_stage": 0,
///                   "free_bytes": 0, "fits": true, "reserved_bytes": 0, "verdict": "fits",
///                   "refusal": null}],
///      "best": {"fastest": 0, "smallest": 0, "cheapest": null},
///      "warnings": ["..."]}
///
/// `free_bytes` is the least margin of a stage where the allocator decides (see simulate), else
/// capacity less reserve and peak; it is negative if the run does not fit. `reserved` says what the
/// stage with the least margin reserves when that first reaches its peak, and for which request it
/// grew to it. `stay` is one
/// of resident, kept, rebuilt, temporary, message. The bytes of `tensors` sum to `at_peak` by
/// category, as `simulate --json` has it for the stage; both `seconds` objects sum to
/// `iteration_seconds`. The numbers of a change are those of `simulate` with the same --set
/// options; those of a change that is not legal are null, and `refusal` says why. `best` has
/// indices into `changes`, or null. `warnings` are those of the configuration's reader, then the
/// choices that do not pay off.
nlohmann::ordered_json to_json(Explanation const& explanation, RunConfig const& run);

}  // namespace stagecraft
