# frozen_string_literal: true

require 'spec_helper'

describe 'etcd_agent::merge' do
  it 'merges hashes in hashes' do
    is_expected.to run.with_params({ 'a' => { 'b' => 1, 'c' => 2 } }, { 'a' => { 'c' => 3 }, 'd' => 4 })
                      .and_return({ 'a' => { 'b' => 1, 'c' => 3 }, 'd' => 4 })
  end

  it 'takes the second value where one is no hash' do
    is_expected.to run.with_params({ 'a' => { 'b' => 1 } }, { 'a' => 2 }).and_return({ 'a' => 2 })
    is_expected.to run.with_params({ 'a' => 2 }, { 'a' => { 'b' => 1 } }).and_return({ 'a' => { 'b' => 1 } })
  end
end
