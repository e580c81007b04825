#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "libsim/plan/units/unit_block.hpp"

namespace stagecraft {

/// Adds to the backward of a block what becomes of the gradients of its unit's parameters.
class UnitGradients {
 public:
  using Ops = UnitBlock::Ops;

  explicit UnitGradients(UnitBlock& unit) : unit_{unit} {}

  /// Makes the gradients buffers of the microbatch, in the type of activations. Kernels write them
  /// instead of adding to them; only lookups of embeddings add, to zeros. What goes into a bucket
  /// goes there as soon as it is made.
  void own();
  /// The gradients of the unit's parameters: the block's, and what the head of its unit has left.
  /// The table's are added up. A flat unit joins all in one tensor, as the backward of its split
  /// into parameters does.
  void collect(Ops& ops);
  /// Reduces what the unit behind has left, beside the own backward.
  void reduce_behind(Ops& first, Ops& last);
  /// Reduces what was collected, or leaves it to the unit before or to the next microbatch.
  void finish(Ops& last);

 private:
  void collect_from(Ops& ops, BlockProgram const& head);
  /// Lets each gradient that the bucket has room for move there after its last write.
  void fill_bucket();
  /// The same for the input of the unit's reduction, which has room for all of them.
  void fill_input();
  void move_after_last_write(Parameter const& parameter, TensorId to);
  bool goes_into_bucket(Parameter const& parameter) const;
  /// The elements that the input of a reduction has room for, if it is of the parameters of a block
  /// and has `elements` in all: DeepSpeed empties a bucket whenever it is full.
  std::int64_t reduced_at_once(BlockProgram const& block, std::int64_t elements) const;
  /// Hands a buffer from unit to unit in the order of a backward; the first one makes it.
  void hand_down(std::string_view what, TensorId buffer);
  /// Appends the reduction of a unit to `begin`; to `end`, what is done once it is over.
  void reduce(Ops& begin,
              Ops& end,
              std::string_view whose,
              std::int32_t position,
              TensorId input,
              std::vector<UnitPart> const& parts,
              bool is_beside);
  /// Adds up the rank's part of a sum over the ranks that have copies of it, if there are any.
  void sum_over_copies(Ops& ops,
                       std::string_view whose,
                       TensorId part,
                       std::optional<GroupId> copies,
                       bool is_beside);
  /// The same as reduce() for what is reduced into one buffer of all the rank's gradients.
  void reduce_in_place(Ops& begin,
                       Ops& end,
                       std::string_view whose,
                       TensorId input,
                       UnitPart const& of,
                       bool is_beside);
  /// Hands on, or ends, what a backward has of a bucket and of the rank's gradients.
  void end_backward(Ops& last);
  /// Appends copies of all gradients into one buffer, as many at a time as an op takes.
  void copy_together(Ops& ops, Name name, TensorId whole);
  /// A flat gradient adds up in its own type, others in that of the reduction.
  ElementType type_of_sum() const;
  /// The gradients that earlier microbatches have added up.
  TensorId sum_so_far();
  /// Adds the gradients to those of earlier microbatches, parameter by parameter.
  void add_to(Ops& ops, TensorId sum);
  /// Appends what makes the input of a reduction. It is the flat gradient itself, if that has its
  /// type.
  TensorId reduce_input(Ops& ops);

  UnitBlock& unit_;
  std::vector<TensorId> gradients_;  ///< of the unit, once they are collected
  TensorId bucket_ = no_tensor;      ///< all buckets
  TensorId in_bucket_ = no_tensor;   ///< the unit's part of one
  TensorId own_gradients_ = no_tensor;
  TensorId input_ = no_tensor;  ///< of the unit's reduction, if gradients fill it
};

}  // namespace stagecraft
