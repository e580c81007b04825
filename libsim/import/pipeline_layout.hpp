#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// The layers of every virtual stage, in model order, of Megatron-LM's
/// --pipeline-model-parallel-layout: `Et*3|(tt|)*29,L`. E is the embedding, t a layer, L the head
/// and loss, m a module of multi-token prediction, of which there are `modules`; stages end at `|`;
/// `*n` repeats a letter or a part in brackets; commas are ignored.
/// \return nullopt if the text is not such a layout, or has E or L elsewhere than in the first and
///         last stage, or m elsewhere than before L
/// Source: Megatron-LM, core/transformer/pipeline_parallel_layer_layout.py.
std::optional<std::vector<std::int64_t>> parse_pipeline_layout(std::string_view text,
                                                               std::int64_t modules = 0);

/// The layout of these layers in the same notation. Pre: not empty.
std::string pipeline_layout(std::vector<std::int64_t> const& layers, std::int64_t modules = 0);

}  // namespace stagecraft
