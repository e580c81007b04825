#pragma once

#include <vector>

#include "libsim/search/search_request.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/paper_models.hpp"
#include "tests/libsim/uneven_runs.hpp"

namespace stagecraft {

/// A small model on a machine with every cost and little memory, so that some plans fit.
inline SearchRequest small_search(std::int64_t layers,
                                  int gpus,
                                  std::int64_t batch,
                                  double gibibytes) {
  SearchRequest request;
  request.base.model = gpt(layers, 256, 4, 128, 1000);
  request.base.memory.reserve = Bytes{0};
  request.system = lossy_system();
  request.system.node.accelerators.value = 4;
  request.system.calibration.workspace.value = Bytes{1 << 20};
  request.system.accelerator.memory.value = Bytes{static_cast<std::int64_t>(gibibytes * (1 << 30))};
  request.gpus = gpus;
  request.global_batch = batch;
  return request;
}

/// The same with layers of 4 experts, of which each token uses 2, after `dense` layers without.
inline SearchRequest small_expert_search(int gpus, double gibibytes, std::int64_t dense) {
  SearchRequest request = small_search(5, gpus, 8, gibibytes);
  request.base.model.experts = ExpertsConfig{.count = 4,
                                             .per_token = 2,
                                             .ffn_hidden = 512,
                                             .shared_ffn_hidden = dense > 0 ? 256 : 0,
                                             .first_dense = dense};
  request.system.node.accelerators.value = 2;  // some groups of experts cross nodes
  return request;
}

/// The same with counts of a file, in which layers and ranks differ.
inline SearchRequest small_uneven_search() {
  SearchRequest request = small_expert_search(8, 0.06, 0);
  request.base.routing = drawn_routing(1, 5, 4, 2, 128);
  return request;
}

/// Searches that differ in model, machine and what is held fast.
inline std::vector<SearchRequest> small_searches() {
  std::vector<SearchRequest> searches{small_search(6, 4, 8, 0.1), small_search(8, 8, 8, 0.05),
                                      small_search(5, 6, 6, 0.08), small_search(12, 4, 4, 0.2),
                                      small_search(8, 4, 8, 0.08)};
  searches[1].base.model.tied_embeddings = false;
  searches[1].base.model.attention = Attention::flash;
  searches[1].base.schedule.p2p = P2p::overlapped;
  searches[2].base.memory.output_deallocation = false;
  searches[2].base.model.precision = Precision::bf16;
  searches[2].base.model.causal_mask = CausalMask::none;
  searches[3].base.parallel.overlap_gradients = true;
  searches[3].system.calibration.p2p_synchronisation.value = {1e-4};
  // Two wide layers first, then narrow ones with a kind of their own.
  ModelConfig& mixed = searches[4].base.model;
  LayerConfig wide = mixed;
  wide.ffn_hidden = 2048;
  LayerConfig narrow = mixed;
  narrow.activation = Activation::swiglu;
  narrow.ffn_hidden = 256;
  mixed.pattern = {{wide, 2}, {narrow, 5}, {mixed, 1}};
  searches.push_back(small_expert_search(8, 0.06, 0));
  searches.push_back(small_expert_search(4, 0.1, 2));
  searches.back().base.parallel.overlap_gradients = true;
  for (auto const method :
       {ContextMethod::ring, ContextMethod::all_gather, ContextMethod::ulysses}) {
    searches.push_back(small_search(4, 8, 8, 0.05));
    ModelConfig& model = searches.back().base.model;
    model.attention = Attention::flash;
    model.attention_dropout = 0;
    searches.back().base.parallel.context_method = method;
    searches.back().filter.context = {1, 2, 4};
  }
  return searches;
}

}  // namespace stagecraft
