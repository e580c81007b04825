#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// Layers of every virtual stage, in model order, of Megatron-LM's
/// --pipeline-model-parallel-layout: `Et*3|(tt|)*29,L`. E is the embedding, t a layer, L the head
/// and loss; stages end at `|`; `*n` repeats a letter or a part in brackets; commas mean nothing.
/// \return nothing where the text is no such layout, or has E and L elsewhere than in the first and
///         last stage, or other letters (m, a layer that predicts further tokens)
/// Source: Megatron-LM, core/transformer/pipeline_parallel_layer_layout.py.
std::optional<std::vector<std::int64_t>> parse_pipeline_layout(std::string_view text);

/// The layout of these layers. Pre: not empty.
std::string pipeline_layout(std::vector<std::int64_t> const& layers);

}  // namespace stagecraft
