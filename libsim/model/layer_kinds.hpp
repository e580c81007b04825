#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// The kinds of a model's layers as numbers: layers of one number have equal programs.
class LayerKinds {
 public:
  explicit LayerKinds(ModelConfig const& model);
  friend LayerKinds kinds_with_predictions(ModelConfig const& model);

  int layers() const { return static_cast<int>(numbers_.size()); }
  /// Whether all layers are of one kind.
  bool are_alike() const { return kinds_.size() == 1; }
  /// The numbers of consecutive layers.
  std::span<int const> of_layers(std::int64_t first, std::int64_t count) const {
    return std::span{numbers_}.subspan(static_cast<std::size_t>(first),
                                       static_cast<std::size_t>(count));
  }
  LayerConfig const& operator[](int number) const {
    return kinds_[static_cast<std::size_t>(number)];
  }
  /// The kind of a layer. Pre: 0 <= layer < layers().
  LayerConfig const& of_layer(std::int64_t layer) const {
    return (*this)[numbers_[static_cast<std::size_t>(layer)]];
  }

 private:
  std::vector<LayerConfig> kinds_;  ///< distinct kinds
  std::vector<int> numbers_;        ///< the kind of each layer, by layer
};

/// The same with the layers of multi-token prediction, whose numbers follow those of the model's
/// layers. They have the kind of the model's last layer.
LayerKinds kinds_with_predictions(ModelConfig const& model);

/// The distinct kinds of a model's layers, each with its number of layers, in the order in which
/// they first occur.
std::vector<LayerRun> layer_runs(ModelConfig const& model);

}  // namespace stagecraft
