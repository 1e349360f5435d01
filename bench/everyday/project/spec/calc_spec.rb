require_relative "../calc"

RSpec.describe "add" do
  it("adds") { expect(add(1, 2)).to eq(3) }
end
