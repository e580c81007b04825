#pragma once

#include "libsim/schedule/orders/slot_grid.hpp"

namespace stagecraft {

/// Chunks that the fullest stage of a grid holds at once, from forward to weight gradient.
int peak_of(SlotGrid const& grid);

// The moves below return false if the grid does not have the form that they need; it is then of no
// use. `m` is the number of microbatches in the grid.

/// Runs each task as early as its dependencies and its stage's order allow.
bool squeeze(SlotGrid& grid, int m);

/// Reorganises the tasks of stages before their first `b`: first as many forwards as the peak
/// allows, those of chunk 1 from the last stage on, then gradients of chunk 1 with forwards between
/// them.
bool reorganise_warm_up(SlotGrid& grid, int m);

/// Reorganises the last gradients of each stage so that those of one microbatch follow each other
/// without gaps. Runs the remaining weight gradients in free slots.
bool reorganise_cool_down(SlotGrid& grid, int m);

/// Leaves out microbatches from `m` on.
void cut(SlotGrid& grid, int m);

/// Puts off the first weight gradients of stages that hold less than `peak`.
void put_off_weights(SlotGrid& grid, int peak);

/// Moves tasks into earlier free slots if dependencies and the peak allow it.
void fill_free_slots(SlotGrid& grid, int m);

/// Gives the weight gradients of each stage to chunks in the order of their input gradients. False
/// unless each letter occurs m times.
bool relabel_weights(SlotGrid& grid, int m);

/// Whether every task comes after the tasks that it depends on.
bool is_legal(SlotGrid const& grid, int m);

}  // namespace stagecraft
