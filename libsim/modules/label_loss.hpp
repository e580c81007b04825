#pragma once

#include "libsim/modules/linear.hpp"
#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// A use of the output projection: logits and their cross entropy with the labels.
struct LabelLoss {
  Linear logits{.owner = "head.logits", .stays_high = true};  ///< unless the block says otherwise
  VocabularyAttributes vocabulary{};
  TensorId input = no_tensor;  ///< normed hidden state
  TensorId labels = no_tensor;
  TensorId output = no_tensor;         ///< logits, before their cap
  TensorId probabilities = no_tensor;  ///< softmax of the logits
};

/// Appends logits and loss for labels that are `ahead` tokens later than the next ones.
void label_loss_forward(ProgramBuilder& builder, LabelLoss& loss, int ahead);
/// Appends the backward. Returns the gradient of the input.
TensorId label_loss_backward(ProgramBuilder& builder, LabelLoss const& loss);

}  // namespace stagecraft
